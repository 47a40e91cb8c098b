import type { ServerOptions } from '@parlance/server';

/** Options with others over them. A feature of the others stands in place of the one of its name, or beside the rest. */
export function merged<Data>(base: ServerOptions<Data>, over: ServerOptions<Data>): ServerOptions<Data> {
  const own = over.features ?? [];
  const kept = (base.features ?? []).filter(({ name }) => !own.some((feature) => feature.name === name));
  return { ...base, ...over, features: [...kept, ...own] };
}
