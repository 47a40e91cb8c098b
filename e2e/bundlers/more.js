/** A request, a stream, a fetch, and a request in each codec that was agreed on. */
export async function useSession(session) {
  const { algorithms, encoding, extensions } = session.negotiated;
  const answer = await session.request('why?');
  let streamed = '';
  for await (const part of session.stream('why?')) streamed += part.text;
  const response = await session.fetch('http://session/v1/echo', { method: 'POST', body: 'by fetch' });
  const fetched = await response.text();
  const text = 'the same words again, '.repeat(20);
  const coded = [];
  for (const algorithm of algorithms) {
    const echo = await session.request(text, { algorithm });
    coded.push(`${algorithm}: ${echo.text.endsWith(text)}`);
  }
  await session.close();
  return { answer: answer.text, streamed, fetched, coded, encoding, context: 'context' in extensions };
}
