import { offer } from '../../../scripts/child-process.js';
import { moduleOf } from './node-22.js';
import { compareOpenAI } from './openai-calls.js';

/** Version 7 of `openai`, in a process of its own. */

const { OpenAI } = await import(moduleOf('openai', 'index.mjs'));

const commands = { compare: () => compareOpenAI(OpenAI) };
export type OpenAICommands = typeof commands;
offer(commands);
