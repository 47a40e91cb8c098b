import { ProtocolError, toProtocolError } from './errors.js';

/** Code that a page loads when it first needs it. On Node it is there from the start. */
export interface Loadable<Exports> {
  readonly isLoaded: boolean;
  /** @throws {ProtocolError} `codec_not_loaded` before {@link load} has resolved. */
  get(): Exports;
  /**
   * Loads the code once; concurrent calls share the attempt. After a failure the next call tries again.
   *
   * @throws {ProtocolError} `codec_not_loaded` if it cannot be loaded, or the code of that failure.
   */
  load(): Promise<Exports>;
}

/** Code that is loaded already. */
export function loaded<Exports>(exports: Exports): Loadable<Exports> {
  return { isLoaded: true, get: () => exports, load: async () => exports };
}

/**
 * Code that `importIt` loads.
 *
 * @param name names the code in errors.
 */
export function loadable<Exports>(name: string, importIt: () => Promise<Exports>): Loadable<Exports> {
  let done: { readonly exports: Exports } | undefined;
  let loading: Promise<{ readonly exports: Exports }> | undefined;
  return {
    get isLoaded() {
      return done !== undefined;
    },
    get() {
      if (done !== undefined) return done.exports;
      throw new ProtocolError('codec_not_loaded', `${name} is not loaded; await loadCodecs first`);
    },
    async load() {
      loading ??= importIt().then(
        (exports) => ({ exports }),
        (error: unknown) => {
          loading = undefined;
          throw toProtocolError(error, 'codec_not_loaded', `${name} could not be loaded`);
        },
      );
      done = await loading;
      return done.exports;
    },
  };
}
