/** The name of the method that `console.log` of Node calls; pages have no module that exports it. */
const INSPECT = Symbol.for('nodejs.util.inspect.custom');

const shown = new WeakSet<object>();

type Inspect = (value: unknown, options: unknown) => string;

/**
 * Lets `console.log` and `JSON.stringify` show objects of a class whose state is private.
 *
 * @param fields what is shown of an object. Must not throw, nor change anything.
 */
export function showAs<Of extends object>(
  { prototype }: { readonly prototype: Of },
  name: string,
  fields: (object: Of) => object,
): void {
  shown.add(prototype);
  const define = (key: string | symbol, value: unknown) =>
    Object.defineProperty(prototype, key, { value, configurable: true, writable: true });
  define('toJSON', function (this: Of) {
    return fields(this);
  });
  define(INSPECT, function (this: Of, _depth: number, options: unknown, inspect?: Inspect) {
    return inspect === undefined ? fields(this) : `${name} ${inspect(fields(this), options)}`;
  });
}

/** Whether an object is shown by {@link showAs}, which is for people: no end reads it. */
export function isShown(value: object): boolean {
  for (let at: unknown = value; typeof at === 'object' && at !== null; at = Object.getPrototypeOf(at))
    if (shown.has(at)) return true;
  return false;
}

/** The fields that have a value. */
export function present(fields: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}
