/**
 * Closing by `await using`. The types are there for compilers whose `lib` has `Symbol.asyncDispose`; for all others
 * they are empty, so that the declarations of the packages can be checked without it.
 */

/** `await using` closes it, if the `lib` of the compiler has `Symbol.asyncDispose` (`esnext.disposable`). */
export type AsyncDisposal = {
  readonly [Key in SymbolConstructor extends { readonly asyncDispose: infer Name extends symbol }
    ? Name
    : never]: () => Promise<void>;
};

abstract class Closing {
  abstract close(): Promise<unknown>;

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** The base of classes with a method `close`, which `await using` calls. */
export const AsyncClosing: abstract new () => AsyncDisposal = Closing;
