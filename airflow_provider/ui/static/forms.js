// The forms in the page's dialogs, and their values.

import { ask } from "./ask.js";
import { el } from "./dom.js";
import { about } from "./address.js";

const labelled = (words, input, hint) => el("label", { class: "field" }, el("span", {}, words), input, hint && el("small", { class: "muted" }, hint));

const select = (name, choices, chosen = "") => el("select", { name }, choices.map(([value, words]) => el("option", { value, selected: value === chosen }, words)));

const number = (name, { min, max, value, required = true }) => el("input", { type: "number", name, min, max, value, required });

// A part of a form: an element, and a function that reads its values.
function formOf(...parts) {
  return { element: el("form", { class: "fields" }, parts.map((part) => part.element)), body: () => Object.assign({}, ...parts.map((part) => part.read())) };
}

const part = (element, read) => ({ element, read });

export const howMany = (words, name, values) => {
  const input = number(name, values);
  return formOf(part(labelled(words, input), () => ({ [name]: input.valueAsNumber })));
};

export function levelForm(workers, levels, worker) {
  const known = el("datalist", { id: "loggers" }, [...new Set(levels.map(({ logger }) => logger))].map((value) => el("option", { value })));
  const logger = el("input", { name: "logger", required: true, pattern: "[A-Za-z_][A-Za-z0-9_.\\-]*", list: "loggers", placeholder: "my_jobs.ingest", autocomplete: "off" });
  const level = select("level", [...["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"].map((each) => [each, each]), ["", "reset"]], "DEBUG");
  const where = select("worker", [["", "all workers"], ...workers.map((each) => [each.worker, each.worker])], worker);
  return formOf(
    part([labelled("Logger *", logger, "as in logging.getLogger(…)"), known], () => ({ logger: logger.value })),
    part(labelled("Level", level), () => ({ level: level.value || null })),
    part(labelled("Worker", where), () => ({ worker: where.value })),
  );
}

export async function alterForm(job) {
  const { defined_at, config, max_tasks: most, retries, session_conf: conf, declared } = (await ask(`api/definition${about({ job })}`)).body;
  const fields = configPart(declared, config), settings = settingsPart(conf);
  const tasks = number("max_tasks", { min: 1, value: most ?? "", required: most !== null }), again = number("retries", { min: 0, value: retries ?? "", required: retries !== null });
  return formOf(
    part(fields.element, () => ({ defined_at, config: changes(config, fields.read()) })),
    part(labelled("Maximum tasks", tasks), () => (tasks.value === "" || tasks.valueAsNumber === most ? {} : { max_tasks: tasks.valueAsNumber })),
    part(labelled("Retries per task", again), () => (again.value === "" || again.valueAsNumber === retries ? {} : { retries: again.valueAsNumber })),
    part(settings.element, () => ({ session_conf: changes(conf, settings.read()) })),
  );
}

// Changes by key; null removes a key.
function changes(before, after) {
  const found = {};
  for (const key of Object.keys(before)) if (!(key in after)) found[key] = null;
  for (const [key, value] of Object.entries(after)) if (JSON.stringify(value) !== JSON.stringify(before[key])) found[key] = value;
  return found;
}

export function submitForm() {
  const job = el("input", { name: "job", required: true, pattern: "[A-Za-z0-9._\\-]{1,200}", autocomplete: "off" });
  const entryPoint = el("input", { name: "entry_point", required: true, pattern: "[^\\s:]+:[^\\s:]+", placeholder: "package.module:Class", autocomplete: "off", onchange: declare });
  const kind = select("kind", [["batch", "batch: its tasks end by themselves"], ["streaming", "streaming: its tasks run until it is removed"]]);
  const tasks = number("max_tasks", { min: 1, value: "", required: false }), again = number("retries", { min: 0, value: "", required: false });
  const runKey = el("input", { name: "run_key", maxLength: 1000, autocomplete: "off" });
  const place = el("div", { class: "fields" }), settings = settingsPart({});
  let fields;
  show({ fields: [], unknown: "if a job of this entry point was planned in this group, there is a field for each key that it declares" });
  function show(declared) {
    fields = configPart(declared, {});
    place.replaceChildren(...[fields.element].flat());
  }
  async function declare() {
    if (!entryPoint.value) return;
    try {
      show((await ask(`api/declared${about({ entry_point: entryPoint.value })}`)).body);
    } catch (failed) {
      show({ fields: [], unknown: failed.message });
    }
  }
  return formOf(
    part(labelled("Job *", job, "letters, digits, . _ -"), () => ({ job: job.value })),
    part(labelled("Entry point *", entryPoint), () => ({ entry_point: entryPoint.value })),
    part(place, () => ({ config: fields.read() })),
    part(labelled("Kind", kind), () => ({ kind: kind.value })),
    part(labelled("Maximum tasks", tasks, "empty: as many as it plans"), () => (tasks.value === "" ? {} : { max_tasks: tasks.valueAsNumber })),
    part(labelled("Retries per task", again, "empty: streams without limit, others not at all"), () => (again.value === "" ? {} : { retries: again.valueAsNumber })),
    part(settings.element, () => ({ session_conf: settings.read() })),
    part(labelled("Run key", runKey, "a new key runs the same batch job again"), () => ({ run_key: runKey.value })),
  );
}

// A field for each key that a job declares, or the whole config as JSON if it declares none or that is not known.
function configPart({ fields, unknown }, config) {
  if (!fields.length) {
    const whole = jsonInput("config", config, true);
    return part(labelled("Config, as a JSON object", whole, unknown || "this job declares no config"), () => JSON.parse(whole.value || "{}"));
  }
  const inputs = fields.map((field) => [field, inputOf(field, config[field.name])]);
  const others = Object.fromEntries(Object.entries(config).filter(([key]) => !fields.some(({ name }) => name === key)));
  return part(
    inputs.map(([field, input]) => labelled(`${field.name}${field.required ? " *" : ""}`, input.element, hint(field))),
    () => ({ ...others, ...Object.fromEntries(inputs.map(([{ name }, input]) => [name, input.read()]).filter(([, value]) => value !== undefined)) }),
  );
}

// Spark's settings are texts, so numbers, true and false are sent as texts.
function settingsPart(conf) {
  const whole = jsonInput("session_conf", Object.keys(conf).length ? conf : undefined, true);
  whole.rows = 2;
  whole.placeholder = '{"spark.sql.shuffle.partitions": 16}';
  return part(
    labelled("Settings of Spark, as a JSON object", whole, "of each task's session, from its next start on"),
    () => Object.fromEntries(Object.entries(JSON.parse(whole.value || "{}")).map(([name, value]) => [name, ["number", "boolean"].includes(typeof value) ? String(value) : value])),
  );
}

const hint = (field) => [field.about, field.default === null ? "" : `default: ${JSON.stringify(field.default)}`].filter(Boolean).join("; ");

// Empty fields are not sent, so that the job's own defaults apply. A value that nobody changes stays as it is, also if
// its field can't hold it.
function inputOf(field, value) {
  const [input, read] = fieldOf(field, value);
  const before = input.value;
  return part(input, () => {
    if (value !== undefined && input.value === before) return value;
    return input.value === "" ? undefined : read();
  });
}

// A field, and a function that reads it.
function fieldOf({ name, kind, required, choices }, value) {
  const text = value === undefined || value === null ? "" : String(value);
  const json = (input) => [input, () => JSON.parse(input.value)];
  switch (kind) {
    case "integer":
    case "number": {
      const input = el("input", { type: "number", name, required, step: kind === "integer" ? 1 : "any", value: text });
      return [input, () => input.valueAsNumber];
    }
    case "flag":
      return json(listed(name, required, [["true", "yes"], ["false", "no"]], value));
    case "choice":
      return json(listed(name, required, choices.map((each) => [JSON.stringify(each), String(each)]), value));
    case "json":
      return json(jsonInput(name, value, false, required));
    default: {
      const input = /[\r\n]/.test(text) ? el("textarea", { name, required, rows: 3, value: text }) : el("input", { name, required, value: text, autocomplete: "off" });
      return [input, () => input.value];
    }
  }
}

// A list of values, also of the present one if that is none of the choices.
function listed(name, required, choices, value) {
  const chosen = value === undefined ? "" : JSON.stringify(value);
  const other = chosen && !choices.some(([each]) => each === chosen) ? [[chosen, String(value)]] : [];
  return select(name, [...(required ? [] : [["", "–"]]), ...choices, ...other], chosen);
}

function jsonInput(name, value, isObject, required = false) {
  const input = el("textarea", { name, required, rows: isObject ? 6 : 2, spellcheck: false, oninput: check });
  input.value = value === undefined ? "" : JSON.stringify(value, null, 1);
  function check() {
    input.setCustomValidity(problem(input.value, isObject));
  }
  return input;
}

function problem(text, isObject) {
  if (!text.trim()) return "";
  try {
    const value = JSON.parse(text);
    return isObject && (value === null || typeof value !== "object" || Array.isArray(value)) ? "This must be a JSON object." : "";
  } catch (wrong) {
    return `This is not JSON: ${wrong.message}`;
  }
}
