/** @type {import('node:module').ResolveHook} */
export async function resolve(specifier, context, next) {
  if (specifier === '#platform') {
    return next(specifier, { ...context, conditions: context.conditions.filter((name) => name !== 'node') });
  }
  if (specifier === 'brotli-wasm') return next(specifier, { ...context, conditions: ['node', 'require'] });
  return next(specifier, context);
}
