import { APICallError, type LanguageModel } from 'ai';

/** A language model that does what the last message of its prompt says, and keeps a record. */

type Model = Extract<LanguageModel, { readonly specificationVersion: 'v3' }>;
type CallOptions = Parameters<Model['doStream']>[0];
type StreamPart =
  Awaited<ReturnType<Model['doStream']>>['stream'] extends ReadableStream<infer Chunk> ? Chunk : never;

export interface ScriptedModel {
  readonly model: Model;
  /** Words that were written so far, of all calls together. */
  words: number;
  /** Calls that were aborted. */
  aborted: number;
  readonly calls: CallOptions[];
}

/** Milliseconds between two words. */
const PACE_MS = 5;

export function createScriptedModel(): ScriptedModel {
  const record: ScriptedModel = {
    words: 0,
    aborted: 0,
    calls: [],
    model: {
      specificationVersion: 'v3',
      provider: 'scripted',
      modelId: 'scripted',
      supportedUrls: {},
      doGenerate: () => Promise.reject(new Error('the scripted model only streams')),
      doStream: async (options) => {
        record.calls.push(options);
        return { stream: streamOf(answer(options, record)) };
      },
    },
  };
  return record;
}

const TOOLS = ['weather', 'location', 'erase'] as const;

async function* answer(
  { prompt, abortSignal }: CallOptions,
  record: ScriptedModel,
): AsyncGenerator<StreamPart> {
  const last = prompt.at(-1);
  const asked = prompt.findLast(({ role }) => role === 'user');
  const text =
    asked?.role === 'user'
      ? asked.content.map((part) => (part.type === 'text' ? part.text : '')).join('')
      : '';
  const [command = '', argument = ''] = text.split(' ');
  yield { type: 'stream-start', warnings: [] };
  if (command === 'status') {
    throw new APICallError({
      message: 'sk-secret is over its limit at https://provider.example',
      url: 'https://provider.example',
      requestBodyValues: {},
      statusCode: Number(argument),
      responseHeaders: { 'retry-after': '7' },
      isRetryable: false,
    });
  }
  const tool = TOOLS.find((name) => name === command);
  if (tool !== undefined && last?.role !== 'tool') {
    yield { type: 'text-start', id: '0' };
    yield { type: 'text-delta', id: '0', delta: 'let me see ' };
    yield { type: 'text-end', id: '0' };
    yield {
      type: 'tool-call',
      toolCallId: `call-${record.calls.length}`,
      toolName: tool,
      input: '{"city":"Oslo"}',
    };
    yield finish('tool-calls');
    return;
  }
  const results = last?.role === 'tool' ? `${JSON.stringify(last.content)} ` : '';
  yield { type: 'text-start', id: '1' };
  if (results !== '') yield { type: 'text-delta', id: '1', delta: results };
  const count = Number(command === 'words' || tool !== undefined ? argument || 1 : 1);
  for (let word = 0; word < count; word++) {
    if (abortSignal?.aborted) {
      record.aborted++;
      throw abortSignal.reason;
    }
    record.words++;
    yield { type: 'text-delta', id: '1', delta: `w${word} ` };
    await new Promise((resolve) => setTimeout(resolve, PACE_MS));
  }
  yield { type: 'text-end', id: '1' };
  yield finish('stop');
}

function finish(unified: 'stop' | 'tool-calls'): StreamPart {
  return {
    type: 'finish',
    finishReason: { unified, raw: undefined },
    usage: {
      inputTokens: { total: 1, noCache: 1, cacheRead: undefined, cacheWrite: undefined },
      outputTokens: { total: 2, text: 2, reasoning: undefined },
    },
  };
}

/** Reads nothing ahead of its reader. */
function streamOf(parts: AsyncGenerator<StreamPart>): ReadableStream<StreamPart> {
  return new ReadableStream(
    {
      async pull(controller) {
        const { done, value } = await parts.next();
        if (done === true) controller.close();
        else controller.enqueue(value);
      },
      async cancel() {
        await parts.return(undefined);
      },
    },
    { highWaterMark: 0 },
  );
}

/** The words of an answer of `words N`. */
export function words(count: number): string {
  return Array.from({ length: count }, (_, word) => `w${word} `).join('');
}
