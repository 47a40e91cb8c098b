import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { expect, it } from 'vitest';
import { compareSdks } from './sdk.js';

it('the packages of OpenAI and Anthropic get over a session what they get directly', async () => {
  const compared = await compareSdks(OpenAI, Anthropic);
  const shown = (text: string) => (text.length > 5000 ? `${text.slice(0, 200)}… ${text.length}` : text);
  expect(compared.map(({ call, way, got }) => [call, way, shown(got)])).toEqual(
    compared.map(({ call, way, direct }) => [call, way, shown(direct)]),
  );
  expect(compared.length).toBeGreaterThan(80);
});
