import { describe, expect, it } from 'vitest';
import { errorCode } from '../../testing/error-code.js';
import { type AvpOptions, agreeOnAvp, introduction } from './agreement.js';
import { decodeAvpHello } from './hello.js';
import type { ModelIdentity } from './identity.js';

const LLAMA: ModelIdentity = {
  modelFamily: 'llama',
  modelId: 'meta-llama/Llama-3-8B',
  modelHash: 'a'.repeat(64),
  hiddenDim: 4096,
  numLayers: 32,
  numKvHeads: 8,
  headDim: 128,
  tokenizerHash: 'c'.repeat(64),
};
const QWEN: ModelIdentity = { ...LLAMA, modelFamily: 'qwen2', modelHash: 'b'.repeat(64), tokenizerHash: '' };
const of = (own: AvpOptions, peer: AvpOptions) => agreeOnAvp(own, introduction(peer, undefined));

describe('an introduction', () => {
  it('names the agent and its model', () => {
    expect(
      decodeAvpHello(introduction({ identity: LLAMA, capabilities: { latent: true } }, 'agent-1')),
    ).toEqual({
      agentId: 'agent-1',
      avpVersion: '0.6.2',
      identity: LLAMA,
      capabilities: { latent: true },
    });
    expect(decodeAvpHello(introduction({}, undefined)).identity).toBeUndefined();
  });

  it('that no peer could parse is refused at its own end', () => {
    for (const identity of [
      { ...LLAMA, hiddenDim: -1 },
      { ...LLAMA, modelId: 7 },
    ])
      expect(errorCode(() => introduction({ identity: identity as never }, undefined))).toBe(
        'invalid_option',
      );
    expect(errorCode(() => introduction({ capabilities: [] as never }, undefined))).toBe('invalid_option');
  });
});

describe('two models', () => {
  it('that are equal exchange tensors without a map', () => {
    expect(of({ identity: LLAMA }, { identity: LLAMA })).toEqual({
      mode: 'latent',
      mapId: '',
      path: 'hash_match',
    });
  });

  it('with nothing in common exchange text', () => {
    const json = { mode: 'json', mapId: '', path: 'json_fallback' };
    expect(of({ identity: LLAMA }, { identity: QWEN })).toEqual(json);
    expect(of({ identity: LLAMA }, {})).toEqual(json);
    expect(of({}, { identity: LLAMA })).toEqual(json);
  });

  it('may have a map, in one direction', () => {
    const id = `${'a'.repeat(16)}_${'b'.repeat(16)}`;
    const maps = new Set([id]);
    expect(of({ identity: LLAMA, maps }, { identity: QWEN })).toMatchObject({ mode: 'latent', mapId: id });
    expect(of({ identity: QWEN, maps }, { identity: LLAMA })).toMatchObject({ mode: 'json' });
  });

  it('may have common tokens, if this end knows them', () => {
    const words = Array.from({ length: 120 }, (_, i) => `w${i}`);
    const tokens = (model: ModelIdentity) => (model.modelFamily === 'llama' ? words : words.slice(10));
    expect(of({ identity: LLAMA, tokens }, { identity: QWEN })).toMatchObject({ mapId: 'vocab_overlap:110' });
    const partly = (model: ModelIdentity) => (model.modelFamily === 'llama' ? words : undefined);
    expect(of({ identity: LLAMA, tokens: partly }, { identity: QWEN })).toMatchObject({ mode: 'json' });
  });

  it.each([
    'hello',
    '[]',
    '{"identity":null}',
    '{"identity":{"hidden_dim":"4096"}}',
    '{"identity":{"num_kv_heads":[8,1]}}',
  ])('exchange text if one introduces itself by %s', (introduction) => {
    expect(agreeOnAvp({ identity: LLAMA }, introduction)).toMatchObject({
      mode: 'json',
      path: 'json_fallback',
    });
  });

  it('are compared if one leaves a field null', () => {
    const stated = JSON.parse(introduction({ identity: LLAMA }, undefined));
    stated.identity.num_kv_heads = null;
    stated.agent_id = null;
    expect(agreeOnAvp({ identity: LLAMA }, JSON.stringify(stated)).mode).toBe('latent');
  });

  it('give an internal error if the avp option throws', () => {
    const tokens = () => {
      throw new Error('no such file');
    };
    expect(errorCode(() => of({ identity: LLAMA, tokens }, { identity: QWEN }))).toBe('internal');
  });
});
