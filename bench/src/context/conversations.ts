import { collectReadmes } from '../codecs/prose.js';
import type { ChatMessage } from '../conversation.js';
import { readFiles, readNovel, readPackageDescriptions, readTranslations, readWebPlatform } from './texts.js';

/**
 * Ten conversations of different kinds, made of installed packages and one novel. Options of the encoder may be tuned on
 * five; the others judge it.
 */
export interface Conversation {
  readonly name: string;
  /** Whether the encoder may be tuned on it. */
  readonly isTuned: boolean;
  /** The messages of each request, in order. */
  readonly requests: readonly (readonly ChatMessage[])[];
}

const TURNS = 40;
/** UTF-16 units of the questions and of the answers, in turns. No length of one list divides one of the other. */
const QUESTIONS = [180, 420, 90, 700, 260] as const;
const ANSWERS = [1800, 3200, 900, 2400, 4000, 1300, 2600] as const;
const SYSTEM = 1500;

export function createConversations(): Conversation[] {
  const of = (name: string, isTuned: boolean, requests: Conversation['requests']): Conversation => ({
    name,
    isTuned,
    requests,
  });
  return [
    of('READMEs', true, appended(talk(mixed(collectReadmes())))),
    of(
      'a guide, answers regenerated',
      true,
      regenerated(talk(passages(readFiles('ai', 'docs/03-ai-sdk-core', '.mdx')))),
    ),
    of('JavaScript', true, appended(talk(passages(readFiles('ws', 'lib', '.js'))))),
    of('English and Japanese', true, appended(translated('ja'))),
    of('tools: packages', true, appended(withTools(packageLookups()))),
    of('a novel', false, appended(talk(passages(readNovel())))),
    of('TypeScript declarations', false, appended(talk(passages(readFiles('@types/node', '', 'fs.d.ts'))))),
    of('English and Russian', false, appended(translated('ru'))),
    of('tools: an agent reads code', false, appended(withTools(fileReads()))),
    of('the web platform, branches', false, branched(talk(passages(readWebPlatform())))),
  ];
}

/** Returns the next so many units of a text with each call. */
type Source = (length: number) => string;

/** Passages of a text, one after the other. */
function passages(text: string): Source {
  let at = 0;
  return (length) => {
    if (at + length > text.length) throw new Error('too little text in the installed packages');
    at += length;
    return text.slice(at - length, at);
  };
}

/** Passages of many texts, each from the next text. */
function mixed(texts: readonly string[]): Source {
  const long = texts.filter((text) => text.length >= 2 * Math.max(...ANSWERS));
  let next = 0;
  return (length) => {
    const text = long[(next * STRIDE) % long.length] as string;
    const start = (Math.floor(next++ / long.length) * length) % (text.length - length);
    return text.slice(start, start + length);
  };
}
/** Shares no factor with any number of texts. */
const STRIDE = 1_000_003;

/** A system prompt, then questions and answers in turns. */
function talk(source: Source): ChatMessage[] {
  return [
    { role: 'system', content: source(SYSTEM) },
    ...Array.from({ length: TURNS }).flatMap((_, i) => [
      { role: 'user', content: source(QUESTIONS[i % QUESTIONS.length] as number) },
      { role: 'assistant', content: source(ANSWERS[i % ANSWERS.length] as number) },
    ]),
  ];
}

/** Asks for translations of some sentences in each turn. */
function translated(language: string): ChatMessage[] {
  const pairs = readTranslations(language);
  let next = 0;
  return [
    {
      role: 'system',
      content: `You translate what a compiler says, from English to "${language}". Keep placeholders.`,
    },
    ...Array.from({ length: TURNS }).flatMap((_, i) => {
      const some = pairs.slice(next, next + 8 + ((i * 5) % 7));
      next += some.length;
      return [
        { role: 'user', content: some.map(([english]) => `- ${english}`).join('\n') },
        { role: 'assistant', content: some.map(([, other]) => `- ${other}`).join('\n') },
      ];
    }),
  ];
}

interface ToolUse {
  readonly question: string;
  readonly name: string;
  readonly arguments: object;
  readonly result: string;
  readonly answer: string;
}

/** Each turn is a question, a call of a tool with its result, and an answer. */
function withTools(uses: readonly ToolUse[]): ChatMessage[] {
  const id = identifiers();
  return [
    { role: 'system', content: 'You answer with what the tools return. Call a tool before you answer.' },
    ...uses.flatMap((use) => {
      const call = `call_${id()}`;
      const toolCalls = [
        {
          id: call,
          type: 'function',
          function: { name: use.name, arguments: JSON.stringify(use.arguments) },
        },
      ];
      return [
        { role: 'user', content: use.question },
        { role: 'assistant', content: '', tool_calls: toolCalls },
        { role: 'tool', content: use.result, tool_call_id: call },
        { role: 'assistant', content: use.answer },
      ];
    }),
  ];
}

/** Tools that return the descriptions of packages. */
function packageLookups(): ToolUse[] {
  const packages = readPackageDescriptions().filter(({ text }) => text.length > 800 && text.length < 6000);
  return Array.from({ length: TURNS }, (_, i) => {
    const { name, text } = packages[(i * STRIDE) % packages.length] as { name: string; text: string };
    const { license, version, description } = JSON.parse(text) as Record<string, string>;
    return {
      question: `What is ${name}, and under which licence may we use it?`,
      name: 'read_package',
      arguments: { name, fields: ['description', 'license', 'dependencies'] },
      result: text,
      answer: `${name} ${version} (${license}): ${description}`,
    };
  });
}

/** An agent that reads a program in pieces, with the numbers of the lines. */
function fileReads(): ToolUse[] {
  const lines = readFiles('ai', 'src/generate-text', '.ts').split('\n');
  const source = passages(readFiles('ai', 'docs/07-reference/01-ai-sdk-core', '.mdx'));
  return Array.from({ length: TURNS }, (_, i) => {
    const from = i * LINES;
    const some = lines.slice(from, from + LINES);
    return {
      question: source(QUESTIONS[i % QUESTIONS.length] as number),
      name: 'read_lines',
      arguments: { path: 'src/generate-text.ts', from: from + 1, to: from + some.length },
      result: some.map((line, at) => `${String(from + at + 1).padStart(6)}\t${line}`).join('\n'),
      answer: source((ANSWERS[i % ANSWERS.length] as number) / 4),
    };
  });
}
const LINES = 60;

/** Identifiers of 24 characters without any pattern, the same in every run. */
function identifiers(): () => string {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
  let state = 0x2545f491;
  const next = (): string => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return alphabet[(state >>> 0) % alphabet.length] as string;
  };
  return () => Array.from({ length: 24 }, next).join('');
}

/** The history up to each question and up to each result of a tool. */
function appended(messages: readonly ChatMessage[]): ChatMessage[][] {
  return requestsOf(messages)
    .map((at) => messages.slice(0, at + 1))
    .slice(0, TURNS);
}

/** Every third answer is asked for again, and the other answer stays. */
function regenerated(messages: readonly ChatMessage[]): ChatMessage[][] {
  return requestsOf(messages)
    .flatMap((at, i) => Array.from({ length: i % 3 === 2 ? 2 : 1 }, () => messages.slice(0, at + 1)))
    .slice(0, TURNS);
}

/** After every fifth question the user goes back, asks the one before the last differently, and continues from there. */
function branched(messages: readonly ChatMessage[]): ChatMessage[][] {
  const [system, ...rest] = messages as [ChatMessage, ...ChatMessage[]];
  const requests: ChatMessage[][] = [];
  let history = [system];
  for (let turn = 0; turn < TURNS; turn++) {
    const [question, answer] = rest.slice(2 * turn, 2 * turn + 2) as [ChatMessage, ChatMessage];
    if (turn % 5 === 4) history = history.slice(0, -4);
    requests.push([...history, question]);
    history = [...history, question, answer];
  }
  return requests;
}

function requestsOf(messages: readonly ChatMessage[]): number[] {
  return messages.flatMap(({ role }, at) => (role === 'user' || role === 'tool' ? [at] : []));
}
