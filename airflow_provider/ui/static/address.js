// The address says what is shown, so that a reload, or a link that is passed on, shows the same.

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

// The query of a request about the group that is shown.
export const about = (more = {}) => only({ conn: get("conn"), group: get("group"), ...more });

// Follows a link into Airflow's own pages. A page in Airflow's frame may not navigate the window; Airflow's document may.
export function leadOut(event) {
  const link = event.currentTarget;
  if (parent === window || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  event.stopPropagation();
  const outside = parent.document.createElement("a");
  Object.assign(outside, { href: link.href, target: link.target, rel: link.rel });
  outside.click();
}
