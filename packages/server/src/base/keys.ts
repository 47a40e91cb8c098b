/** A key that is different for different lists of texts, with any characters. */
export function keyOf(...texts: readonly string[]): string {
  return texts.map((text) => text.replaceAll(/[^A-Za-z0-9_-]/g, escapeUnit)).join(':');
}

/** Four digits for each UTF-16 unit, so that the end of an escape is certain. */
function escapeUnit(unit: string): string {
  return [...unit.split('')].map((each) => `%${each.charCodeAt(0).toString(16).padStart(4, '0')}`).join('');
}

/** The texts of a key. */
export function textsOf(key: string): readonly string[] {
  return key
    .split(':')
    .map((text) =>
      text.replaceAll(/%([\da-f]{4})/g, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16))),
    );
}
