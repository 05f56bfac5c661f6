// What is shown stands in the address: a reload, or a link that is passed on, shows the same.

const query = new URLSearchParams(location.search);

export const get = (name) => query.get(name) ?? "";

export function set(values) {
  for (const [name, value] of Object.entries(values)) {
    if (value === "" || value === null || value === undefined || value === false) query.delete(name);
    else query.set(name, value);
  }
  history.replaceState(null, "", `?${query}`);
}

export function only(values) {
  const filled = Object.entries(values).filter(([, value]) => value !== "" && value !== undefined);
  return `?${new URLSearchParams(filled)}`;
}

// The group that is shown, as a question names it.
export const about = (more = {}) => only({ conn: get("conn"), group: get("group"), ...more });

// A link into Airflow's own pages. Airflow's frame lets nothing in it navigate the window; Airflow's own document may.
export function leadOut(event) {
  const link = event.currentTarget;
  if (parent === window || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  event.stopPropagation();
  const outside = parent.document.createElement("a");
  Object.assign(outside, { href: link.href, target: link.target, rel: link.rel });
  outside.click();
}
