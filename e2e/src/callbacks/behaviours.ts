/** Unexpected behaviours of an application's functions. Each is called once per use, and its value is fresh. */

const fail = () => {
  throw new Error('a trap has thrown');
};

/** A value that throws whatever is done with it. */
export function hostile(): unknown {
  const traps = Object.getOwnPropertyNames(Reflect).map((name) => [name, fail] as const);
  return new Proxy(() => {}, Object.fromEntries(traps));
}

/** An error whose properties throw when they are read. */
function unreadable(): Error {
  const error = new Error('hidden');
  for (const name of ['name', 'message', 'stack', 'cause', 'code', 'constructor', 'then'])
    Object.defineProperty(error, name, { get: fail });
  return error;
}

export const BEHAVIOURS: Readonly<Record<string, () => unknown>> = {
  'throws an error': () => {
    throw new Error('thrown');
  },
  'throws a value that throws': () => {
    throw hostile();
  },
  'throws an error that throws': () => {
    throw unreadable();
  },
  'throws nothing': () => {
    throw undefined;
  },
  'rejects with an error': () => Promise.reject(new Error('rejected')),
  'rejects with a value that throws': () => Promise.reject(hostile()),
  'rejects with an error that throws': () => Promise.reject(unreadable()),
  'rejects later': () =>
    new Promise((_resolve, reject) => setTimeout(() => reject(new Error('rejected later')), 5)),
  hangs: () => new Promise(() => {}),
  'returns a promise of a value that throws': () => Promise.resolve([hostile()]),
  // biome-ignore-start lint/suspicious/noThenProperty: objects with such a method are the point
  'returns what has a then that throws': () => ({ then: fail }),
  'returns what has a getter then that throws': () => Object.defineProperty({}, 'then', { get: fail }),
  'returns what settles twice': () => ({
    then(resolve: (value: unknown) => void, reject: (error: unknown) => void) {
      resolve(42);
      reject(new Error('settled twice'));
      resolve(43);
      throw new Error('and throws');
    },
  }),
  'returns a promise with a then of its own that throws': () =>
    Object.assign(Promise.reject(new Error('rejected unseen')), { then: fail, catch: fail }),
  // biome-ignore-end lint/suspicious/noThenProperty: as above
  'returns a value that throws': hostile,
  'returns an object whose members throw': () =>
    new Proxy({}, { get: (_target, name) => (name === 'then' ? undefined : fail()), has: () => true }),
  'returns an iterable that throws': () => ({ [Symbol.asyncIterator]: fail, [Symbol.iterator]: fail }),
  'returns parts that throw': async function* () {
    yield 'one';
    throw hostile();
  },
  'returns undefined': () => undefined,
  'returns null': () => null,
  'returns a number': () => 42,
  'returns a symbol': () => Symbol('nonsense'),
  'returns a big integer': () => 10n ** 400n,
  'returns an empty object': () => ({}),
  'returns a list of nonsense': () => [undefined, Number.NaN, Symbol('x'), {}],
};
