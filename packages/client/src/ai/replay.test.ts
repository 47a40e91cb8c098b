import type { Message } from '@parlance/protocol';
import { type ChatParts, CONTINUATION, chatChunks } from '@parlance/protocol/client';
import { readUIMessageStream, type UIMessage, type UIMessageChunk } from 'ai';
import { describe, expect, it } from 'vitest';

/** The AI SDK makes the same message again of the chunks. */

const MESSAGE: UIMessage = {
  id: 'm',
  role: 'assistant',
  metadata: { at: 1 },
  parts: [
    { type: 'step-start' },
    { type: 'reasoning', text: 'hm', state: 'done' },
    { type: 'text', text: 'one', state: 'done' },
    { type: 'source-url', sourceId: 's', url: 'https://a.example', title: 'A' },
    { type: 'file', mediaType: 'image/png', url: 'data:image/png;base64,AA==' },
    { type: 'data-note', id: 'n', data: { note: 1 } },
    { type: 'tool-done', toolCallId: '1', state: 'output-available', input: { a: [1] }, output: { b: 2 } },
    { type: 'tool-failed', toolCallId: '2', state: 'output-error', input: {}, errorText: 'no' },
    {
      type: 'dynamic-tool',
      toolName: 'any',
      toolCallId: '3',
      state: 'output-available',
      input: 'x',
      output: null,
    },
    { type: 'tool-waiting', toolCallId: '4', state: 'input-available', input: { c: 3 } },
    { type: 'step-start' },
    { type: 'text', text: 'two', state: 'done' },
  ],
};

/** The chunks for a page that follows an answer which continues the message. */
async function replay(message: unknown): Promise<UIMessageChunk[]> {
  const parts = [{ json: () => ({ type: CONTINUATION, message }) } as Message];
  const chunks: unknown[] = [];
  for await (const chunk of chatChunks(parts.values() as unknown as ChatParts, true)) chunks.push(chunk);
  return chunks as UIMessageChunk[];
}

async function replayed(message: unknown): Promise<UIMessage | undefined> {
  const chunks = await replay(message);
  const stream = new ReadableStream<UIMessageChunk>({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
  let last: UIMessage | undefined;
  for await (const each of readUIMessageStream({ stream, terminateOnError: true })) last = each;
  return last;
}

describe('a message that is replayed', () => {
  it('has the same parts', async () => {
    const message = await replayed(MESSAGE);
    // `undefined` where the AI SDK states what is not there.
    expect(JSON.parse(JSON.stringify(message))).toMatchObject(MESSAGE);
    expect(message?.parts).toHaveLength(MESSAGE.parts.length);
  });

  it('announces only the tools that still have to run', async () => {
    const available = (await replay(MESSAGE)).filter(({ type }) => type === 'tool-input-available');
    expect(available).toEqual([expect.objectContaining({ toolCallId: '4' })]);
  });

  it('asks for no approval that was given, and keeps one that was denied', async () => {
    const approval = { id: 'a', approved: false } as const;
    const parts: UIMessage['parts'] = [
      {
        type: 'tool-given',
        toolCallId: '1',
        state: 'approval-responded',
        input: {},
        approval: { id: 'b', approved: true },
      },
      { type: 'tool-denied', toolCallId: '2', state: 'output-denied', input: {}, approval },
    ];
    const message = await replayed({ ...MESSAGE, parts });
    expect(message?.parts.map((part) => ('state' in part ? part.state : ''))).toEqual([
      'input-available',
      'output-denied',
    ]);
  });

  it.each([
    undefined,
    'text',
    [],
    { id: 'm' },
    { id: 'm', parts: 'none' },
    { id: 'm', parts: [1, {}, { type: 'x' }] },
  ])('is nothing but its beginning if it is %j', async (message) => {
    expect((await replay(message)).map(({ type }) => type)).toEqual(
      typeof message === 'object' && !Array.isArray(message) ? ['start'] : [],
    );
  });
});
