/** The imports of `@parlance/protocol` that Node and browsers resolve differently. */
const CONDITIONAL = new Set(['#platform', '#crypto', '#msgpack', '#lifecycle', '#sentences']);

/** @type {import('node:module').ResolveHook} */
export async function resolve(specifier, context, next) {
  if (CONDITIONAL.has(specifier)) {
    return next(specifier, { ...context, conditions: context.conditions.filter((name) => name !== 'node') });
  }
  if (specifier === 'brotli-wasm') return next(specifier, { ...context, conditions: ['node', 'require'] });
  return next(specifier, context);
}
