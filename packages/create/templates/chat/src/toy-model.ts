/** Stands in for the API of a model, so that the page works before there is a key. It answers as that API does. */
export async function toyModel(input: string | URL | Request, init?: RequestInit): Promise<Response> {
  const request = new Request(input, init);
  if (request.method === 'GET')
    return Response.json({ object: 'list', data: [{ id: 'toy', object: 'model' }] });
  const { messages } = (await request.json()) as { messages: readonly { readonly content: string }[] };
  const answer =
    `You said “${messages.at(-1)?.content}”. This toy knows nothing else: set OPENAI_API_KEY, or OPENAI_BASE_URL for a ` +
    'model of your own, and start again. Meanwhile, cut the network or end the server with Ctrl-C: the answer is finished.';
  const events = async function* (): AsyncGenerator<Uint8Array> {
    const event = (data: string) => new TextEncoder().encode(`data: ${data}\n\n`);
    for (const word of answer.split(/(?<= )/)) {
      yield event(JSON.stringify({ id: 'toy', choices: [{ index: 0, delta: { content: word } }] }));
      await new Promise((resolve) => setTimeout(resolve, 60));
    }
    yield event(JSON.stringify({ id: 'toy', choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }));
    yield event('[DONE]');
  };
  return new Response(ReadableStream.from(events()), { headers: { 'content-type': 'text/event-stream' } });
}
