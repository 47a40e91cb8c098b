import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import Anthropic from '@anthropic-ai/sdk';
import { connect } from '@parlance/client';
import { createServer } from '@parlance/server';
import { createOpenAIGateway } from '@parlance/server/openai';
import WebSocket from 'ws';
import { offer } from '../../../scripts/child-process.js';
import { compareAll } from '../field/forwards-unchanged/compare.js';
import { compareSdks } from '../field/forwards-unchanged/sdk.js';
import { folderOf, moduleOf } from './node-22.js';
import { compareOpenAI } from './openai-calls.js';

/** Version 7 of `openai`, in a process of its own. */

const { OpenAI } = await import(moduleOf('openai', 'index.mjs'));

const versionOf = (name: string): string =>
  JSON.parse(readFileSync(join(folderOf(name), 'package.json'), 'utf8')).version;

const commands = {
  compare: () => compareOpenAI(OpenAI),
  compareTable: () => compareAll(),
  compareSdks: () => compareSdks(OpenAI, Anthropic),
  /** The versions that the commands run with. */
  versions: () => ({
    node: process.versions.node,
    openai: versionOf('openai'),
    ai: versionOf('ai'),
    '@ai-sdk/react': versionOf('@ai-sdk/react'),
  }),
  /** The status with which an upstream answers the gateway, which asks it as Node's own clients do in this environment. */
  async askUpstream(baseUrl: string): Promise<number> {
    await using server = createServer({ onRequest: createOpenAIGateway({ baseUrl }) });
    const { url } = await server.listen();
    await using session = await connect(url, { WebSocket });
    const headers = { 'content-type': 'application/json' };
    const init = { method: 'POST', headers, body: '{"model":"m"}' };
    const { status } = await session.fetch('http://session/v1/chat/completions', init);
    return status;
  },
};
export type OpenAICommands = typeof commands;
offer(commands);
