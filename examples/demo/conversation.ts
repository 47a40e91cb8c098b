import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ChatMessage, ChatRequest } from './chat-completion.js';

/**
 * A long conversation in real prose, without shipping any: paragraphs from the READMEs of installed
 * packages serve as questions and answers.
 */

const MIN_PARAGRAPH = 120;
const MAX_PARAGRAPH = 900;

/**
 * The requests of a chat with `turns` turns, each with the whole history, as in chat APIs.
 *
 * @param nodeModules folder of installed packages.
 */
export function buildConversation(nodeModules: string, turns: number): ChatRequest[] {
  const paragraphs = collectParagraphs(nodeModules, turns * 2);
  if (paragraphs.length < 4)
    throw new Error(`too little prose in the READMEs below ${nodeModules}; install the packages first`);
  const messages: ChatMessage[] = [
    { role: 'system', content: 'You explain software to people who are new to it.' },
  ];
  const requests: ChatRequest[] = [];
  for (let turn = 0; turn < turns; turn++) {
    const question = paragraphs[(2 * turn) % paragraphs.length] as string;
    const answer = paragraphs[(2 * turn + 1) % paragraphs.length] as string;
    messages.push({ role: 'user', content: `What does this mean? ${question}` });
    requests.push({ model: 'gpt-4o', messages: [...messages], max_tokens: 512 });
    messages.push({ role: 'assistant', content: answer });
  }
  return requests;
}

function collectParagraphs(nodeModules: string, wanted: number): string[] {
  const found: string[] = [];
  for (const name of packageNames(nodeModules)) {
    const readme = join(nodeModules, name, 'README.md');
    if (!existsSync(readme)) continue;
    for (const block of readFileSync(readme, 'utf8').split(/\r?\n\s*\r?\n/)) {
      const text = block.replace(/\s+/g, ' ').trim();
      const isProse = /^[A-Z][a-z]/.test(text) && !text.includes('```');
      if (isProse && text.length >= MIN_PARAGRAPH && text.length <= MAX_PARAGRAPH) found.push(text);
      if (found.length >= wanted) return found;
    }
  }
  return found;
}

function packageNames(nodeModules: string): string[] {
  return readdirSync(nodeModules)
    .filter((name) => !name.startsWith('.'))
    .flatMap((name) =>
      name.startsWith('@') ? readdirSync(join(nodeModules, name)).map((inner) => `${name}/${inner}`) : name,
    )
    .sort();
}
