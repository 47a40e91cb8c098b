/** Texts that are remembered, and their length in UTF-16 units, at most. */
export const MAX_TEXTS = 64;
export const MAX_LENGTH = 512;

/**
 * Remembers the results of a function for short texts, of which peers have few: ends of one build state the same. If there are too
 * many, it begins again.
 *
 * @param read a pure function; nobody changes its results. What it throws is not remembered.
 */
export function remembered<Result extends object | string>(
  read: (text: string) => Result,
): (text: string) => Result {
  const known = new Map<string, Result>();
  return (text) => {
    const found = known.get(text);
    if (found !== undefined || text.length > MAX_LENGTH) return found ?? read(text);
    const result = read(text);
    if (known.size >= MAX_TEXTS) known.clear();
    known.set(text, result);
    return result;
  };
}
