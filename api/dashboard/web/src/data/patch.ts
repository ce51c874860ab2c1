/** A difference between two values, at a path such as props.url; undefined for none. */
export interface Change {
  path: string;
  from: unknown;
  to: unknown;
}

type Fields = Record<string, unknown>;

function fieldsOf(value: unknown): Fields | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : undefined;
}

/** In what two objects differ; of values that are objects in both, the fields are compared. */
export function changesOf(from: Fields, to: Fields, path = ""): Change[] {
  return [...new Set([...Object.keys(from), ...Object.keys(to)])].sort().flatMap((name) => {
    const was = own(from, name), is = own(to, name);
    const before = fieldsOf(was), after = fieldsOf(is);
    if (before && after) return changesOf(before, after, `${path}${name}.`);
    return same(was, is) ? [] : [{ path: path + name, from: was, to: is }];
  });
}

/**
 * The merge patch (RFC 7396) that makes one object the other. Some changes it cannot
 * say, and some numbers a browser cannot keep: those are errors.
 */
export function patchOf(from: Fields, to: Fields, path = ""): Fields {
  const patch: Fields = {};
  for (const name of new Set([...Object.keys(from), ...Object.keys(to)])) {
    const was = own(from, name), is = own(to, name);
    if (same(was, is)) continue;
    const after = fieldsOf(is);
    if (is === null) throw new Error(`${path}${name}: null would remove it; leave the field out instead`);
    if (!after) checkNumbers(is, path + name);
    put(patch, name, is === undefined ? null : after ? patchOf(fieldsOf(was) ?? {}, after, `${path}${name}.`) : is);
  }
  return patch;
}

/** A field that an object has itself: "toString" is in every object. */
function own(of: Fields, name: string): unknown {
  return Object.hasOwn(of, name) ? of[name] : undefined;
}

/** Sets a field of any name, also of those with which objects are made. */
function put(of: Fields, name: string, value: unknown): void {
  Object.defineProperty(of, name, { value, enumerable: true, configurable: true, writable: true });
}

function checkNumbers(value: unknown, path: string): void {
  if (typeof value === "number" && Math.abs(value) > Number.MAX_SAFE_INTEGER) {
    throw new Error(`${path}: the number ${value} has more digits than a browser keeps; use windlass task update`);
  }
  if (typeof value === "object" && value !== null) Object.entries(value).forEach(([name, v]) => checkNumbers(v, `${path}.${name}`));
}

function same(a: unknown, b: unknown): boolean {
  const before = fieldsOf(a), after = fieldsOf(b);
  if (before && after) return changesOf(before, after).length === 0;
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((v, i) => same(v, b[i]));
  return a === b;
}
