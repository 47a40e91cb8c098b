/** Node has the sentences of all errors from the start. `sentences-web.ts` says what pages do. */

/** Called with each new error, and with the message that it was made with. */
export function complete(_error: Error, _message: unknown): void {}

/** Resolves when the error has its sentence; `undefined` if it has it already. */
export function sentenceOf(_error: unknown): Promise<void> | undefined {
  return undefined;
}

/** Never rejects. */
export function loadSentences(): Promise<void> {
  return Promise.resolve();
}
