import { describe, expect, it } from 'vitest';
import { DEFAULT_LIMITS } from '../../base/limits.js';
import { encodeAvpHello } from '../../codec/avp/hello.js';
import { errorCode } from '../../testing/error-code.js';
import { MAX_AGENT_IDENTITY, readAgent } from './description.js';
import { MAX_AGENT_METADATA } from './introduction.js';

describe('the description of an agent', () => {
  const identity = (modelId: string) => ({
    modelFamily: 'llama',
    modelId,
    modelHash: '0'.repeat(64),
    hiddenDim: 4096,
    numLayers: 32,
    numKvHeads: 8,
    headDim: 128,
    tokenizerHash: '1'.repeat(64),
  });
  const read = (modelId: string) =>
    errorCode(() =>
      readAgent({ agents: '{}', avp: encodeAvpHello({ identity: identity(modelId) }) }, DEFAULT_LIMITS),
    );

  it('has an identity whose texts have at most the maximum of bytes together', () => {
    const left = MAX_AGENT_IDENTITY - 'llama'.length - 2 * 64;
    expect([read('x'.repeat(left)), read('x'.repeat(left + 1))]).toEqual(['none', 'metadata_too_large']);
    expect(read('ä'.repeat(left / 2 + 1))).toBe('metadata_too_large');
  });

  it('has metadata of at most the maximum of bytes', () => {
    const stated = (size: number) => `{"metadata":{"n":"${'x'.repeat(size - '{"n":""}'.length)}"}}`;
    const size = (bytes: number) => errorCode(() => readAgent({ agents: stated(bytes) }, DEFAULT_LIMITS));
    expect([size(MAX_AGENT_METADATA), size(MAX_AGENT_METADATA + 1)]).toEqual(['none', 'metadata_too_large']);
  });
});
