/**
 * Objects with private members, in places that wrap what they are given in a `Proxy`: `ref()` and `reactive()` of Vue, Alpine and
 * other libraries of reactive state. A method that is called on the wrapper has no private members, so it would throw.
 */

/** A field of each instance that is itself, which a wrapper hands on: `readonly [SELF] = this`. */
export const SELF: unique symbol = Symbol('self');

interface Held {
  readonly [SELF]?: object;
}

/**
 * Has the members of a class work on wrappers too, if its instances have {@link SELF}. Vue, and a library that builds on its reactivity, does not
 * wrap instances at all: that is the flag which `markRaw` sets, here for all of a class.
 */
export function workAsTheyAre(...classes: readonly { readonly prototype: object }[]): void {
  for (const { prototype } of classes) {
    for (const key of Reflect.ownKeys(prototype)) {
      if (key === 'constructor') continue;
      const member = Object.getOwnPropertyDescriptor(prototype, key) as PropertyDescriptor;
      for (const kind of ['value', 'get', 'set'] as const) {
        const own = member[kind];
        if (typeof own === 'function') member[kind] = onSelf(own as (...args: unknown[]) => unknown);
      }
      Object.defineProperty(prototype, key, member);
    }
    Object.defineProperty(prototype, '__v_skip', { value: true });
  }
}

function onSelf(member: (...args: unknown[]) => unknown): (...args: unknown[]) => unknown {
  const wrapper = function (this: Held, ...args: unknown[]): unknown {
    return member.apply(this[SELF] ?? this, args);
  };
  return Object.defineProperty(wrapper, 'name', { value: member.name });
}
