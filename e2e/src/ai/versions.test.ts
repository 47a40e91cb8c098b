import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import { installNode22, node22Missing, startUnderNode22 } from './node-22.js';
import { type Compared, compareOpenAI } from './openai-calls.js';
import type { OpenAICommands } from './openai-process.js';

/** Both versions of the packages that applications use; e2e/src/ai/chat.browser.test.ts has those of the AI SDK. */

const missing = node22Missing();

describe('the gateway', () => {
  it('answers openai 6 as the API does', async () => {
    assertSame(await compareOpenAI(OpenAI));
  });

  it.skipIf(missing !== undefined)('answers openai 7 as the API does', async () => {
    await installNode22();
    const child = startUnderNode22<OpenAICommands>('ai/openai-process');
    try {
      assertSame(await child.call('compare'));
    } finally {
      await child.kill();
    }
  });
});

it.skipIf(missing !== undefined)('the types of chats fit version 7 of the AI SDK', async () => {
  await installNode22();
  const root = fileURLToPath(new URL('../../..', import.meta.url));
  const tsc = fileURLToPath(new URL('../../../node_modules/typescript/bin/tsc', import.meta.url));
  const output = execFileSync(process.execPath, [tsc, '-p', 'e2e/node-22/tsconfig.json'], {
    cwd: root,
    encoding: 'utf8',
  });
  expect(output).toBe('');
});

function assertSame(compared: readonly Compared[]): void {
  expect(compared.map(({ call, through }) => [call, through])).toEqual(
    compared.map(({ call, direct }) => [call, direct]),
  );
  const failed = compared.filter(({ direct }) => /"status":[45]/.test(direct)).map(({ call }) => call);
  expect(failed).toEqual(['rate limit', 'server error']);
  expect(compared.map(({ direct }) => direct.length).every((length) => length > 10)).toBe(true);
}
