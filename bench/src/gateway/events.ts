/** An event of a streamed chat completion, in the form that the real API uses. */
export function eventOf(delta: object, finish: string | null = null): string {
  const chunk = {
    id: 'chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT',
    object: 'chat.completion.chunk',
    created: 1741569952,
    model: 'gpt-4o-2024-08-06',
    service_tier: 'default',
    system_fingerprint: 'fp_44709d6fcb',
    choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }],
  };
  return `data: ${JSON.stringify(chunk)}\n\n`;
}

/** The events of a whole answer, one for each piece of its text. */
export function eventsOf(pieces: readonly string[]): string[] {
  return [
    eventOf({ role: 'assistant', content: '', refusal: null }),
    ...pieces.map((content) => eventOf({ content })),
    eventOf({}, 'stop'),
    'data: [DONE]\n\n',
  ];
}

interface Tokenizer {
  encode(text: string): Iterable<number>;
  createDecoder(): { push(ids: Uint32Array): string };
}

/** A text as a model writes it: a piece for each token. */
export function piecesOf(text: string, encoding: Tokenizer): string[] {
  const decoder = encoding.createDecoder();
  return [...encoding.encode(text)]
    .map((id) => decoder.push(Uint32Array.of(id)))
    .filter((piece) => piece !== '');
}
