/** The state of a session on record: the JSON of its `data`, in UTF-8; empty for none. */

export const stateOf = (dataText: string | undefined): Uint8Array => new TextEncoder().encode(dataText ?? '');

export function dataTextOf(state: Uint8Array | undefined): string | undefined {
  return state === undefined || state.length === 0 ? undefined : new TextDecoder().decode(state);
}
