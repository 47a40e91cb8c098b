import { ProtocolError } from './errors.js';

/** Names that other libraries have, and what has their place here: callers without a compiler learn of it. */

/** The name to write instead, by the name of an option or a method. */
export type ForeignNames = Readonly<Record<string, string>>;

/**
 * @param known the options that there are.
 * @returns the error for an option of another library, if there is one among them.
 */
export function foreignOption(
  options: unknown,
  known: object,
  foreign: ForeignNames,
): ProtocolError | undefined {
  const name = Object.keys(Object(options)).find(
    (each) => !Object.hasOwn(known, each) && Object.hasOwn(foreign, each),
  );
  if (name === undefined) return undefined;
  return new ProtocolError('invalid_option', `unknown option "${name}": ${foreign[name]}`);
}

/**
 * Adds methods of other libraries that throw `unsupported`, unless there is something of that name.
 *
 * @param what the subject of messages, such as `session`.
 */
export function addForeignMethods(prototype: object, what: string, foreign: ForeignNames): void {
  for (const [name, instead] of Object.entries(foreign)) {
    if (name in prototype) continue;
    const fail = (): never => {
      throw new ProtocolError('unsupported', `${what}.${name} does not exist: ${instead}`);
    };
    // `socket.broadcast.emit(…)`
    const value = Object.assign(() => fail(), { emit: fail });
    Object.defineProperty(prototype, name, { value, configurable: true, writable: true });
  }
}
