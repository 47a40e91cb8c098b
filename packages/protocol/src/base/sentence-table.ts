/** The text before, between and after the values of a sentence. */
export type Sentence = readonly string[];

/**
 * The table of sentences that `say` looks up. From the sources it is empty, because every error has its sentence; the build
 * of pages puts an import of what it has taken out in place of this file.
 */
export async function importSentences(): Promise<{ readonly sentences: readonly Sentence[] }> {
  return { sentences: [] };
}
