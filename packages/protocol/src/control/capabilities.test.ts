import { describe, expect, it } from 'vitest';
import { Algorithm, EncodingName } from '../base/constants.js';
import { errorCode } from '../testing/error-code.js';
import { acceptFields, capabilityNames, helloFields, parseAccept, parseHello } from './capabilities.js';
import type { AcceptPayload, HelloPayload } from './messages.js';

const HELLO: HelloPayload = {
  shape: 'flat',
  version: '1.0',
  algorithms: [Algorithm.TOKEN_NATIVE, Algorithm.NONE],
  encodings: [EncodingName.O200K_BASE, EncodingName.CL100K_BASE],
  preferredEncoding: EncodingName.O200K_BASE,
  securityScanning: true,
  maxPayloadSize: 1_000,
  supportsStreaming: true,
  agentId: 'agent',
  extensions: { link: '{}' },
  auth: { token: 'secret' },
};
const ACCEPT: AcceptPayload = {
  shape: 'flat',
  version: '1.0',
  algorithms: [Algorithm.NONE],
  encoding: EncodingName.CL100K_BASE,
  encodings: [EncodingName.CL100K_BASE],
  securityScanning: false,
  sessionTimeoutMs: 300_000,
  maxPayloadSize: 1_000,
  limits: { maxStreams: 128 },
  agentId: 'agent',
  extensions: { link: '{}' },
};

describe('names', () => {
  it.each<[string, Algorithm | undefined]>([
    ...Object.values(Algorithm).map((name): [string, Algorithm] => [name, name]),
    ['m2m', 'M2M'],
    ['tokennative', 'TOKEN_NATIVE'],
    ['TokenNative', 'TOKEN_NATIVE'],
    ['token-native', 'TOKEN_NATIVE'],
    ['bRoTlI', 'BROTLI'],
    ['none', 'NONE'],
    ['zlib', undefined],
    ['m2m ', undefined],
    ['', undefined],
    ['constructor', undefined],
    ['__proto__', undefined],
    [`none${'_'.repeat(60)}`, 'NONE'],
    [`none${'_'.repeat(61)}`, undefined],
  ])('of the algorithm %j mean %s', (name, algorithm) => {
    expect(capabilityNames.algorithm(name)).toBe(algorithm);
  });

  it.each<[string, EncodingName | undefined]>([
    ...Object.values(EncodingName).map((name): [string, EncodingName] => [name, name]),
    ['Cl100kBase', 'CL100K_BASE'],
    ['O200kBase', 'O200K_BASE'],
    ['LlamaBpe', 'LLAMA_BPE'],
    ['llama-bpe', 'LLAMA_BPE'],
    ['p50k_base', undefined],
  ])('of the encoding %j mean %s', (name, encoding) => {
    expect(capabilityNames.encoding(name)).toBe(encoding);
  });

  it('in a list keep their order, once each, without unknown ones', () => {
    const { algorithms, encodings } = parseHello({
      algorithms: ['NONE', 'quantum', 'm2m', 'none', 'M2M', 'brotli'],
      encodings: ['p50k_base', 'o200k_base', 'Cl100kBase', 'O200K_BASE'],
    });
    expect(algorithms).toEqual(['NONE', 'M2M', 'BROTLI']);
    expect(encodings).toEqual(['O200K_BASE', 'CL100K_BASE']);
  });

  it('of an unknown preferred encoding count as none', () => {
    expect(parseHello({ preferred_encoding: 'p50k_base' }).preferredEncoding).toBeNull();
    expect(parseAccept({ encoding: 'p50k_base' }).encoding).toBeNull();
  });
});

describe('shape', () => {
  it('depends on the compression object and on nothing else', () => {
    for (const parse of [parseHello, parseAccept]) {
      expect(parse({ version: '3.0', security: {} }).shape).toBe('flat');
      expect(parse({ version: '1.0', compression: {} }).shape).toBe('nested');
      expect(parse({ compression: null }).shape).toBe('flat');
    }
  });

  it('decides where a field is read', () => {
    const both = {
      algorithms: ['NONE'],
      max_payload_size: 1,
      security_scanning: true,
      supports_streaming: true,
      compression: { algorithms: ['m2m'], max_payload: 2 },
      security: { threat_detection: false },
    };
    expect(parseHello(both)).toMatchObject({
      algorithms: ['M2M'],
      maxPayloadSize: 2,
      securityScanning: false,
      supportsStreaming: false,
    });
    expect(parseAccept({ compression: {} })).toMatchObject({ securityScanning: false, maxPayloadSize: 0 });
  });

  it('flat writes the names of the protocol document', () => {
    expect(helloFields(HELLO)).toEqual({
      version: '1.0',
      algorithms: ['TOKEN_NATIVE', 'NONE'],
      encodings: ['O200K_BASE', 'CL100K_BASE'],
      preferred_encoding: 'O200K_BASE',
      security_scanning: true,
      max_payload_size: 1_000,
      supports_streaming: true,
      agent_id: 'agent',
      extensions: { link: '{}' },
      auth: { token: 'secret' },
    });
    expect(acceptFields(ACCEPT)).toEqual({
      version: '1.0',
      algorithms: ['NONE'],
      encoding: 'CL100K_BASE',
      session_timeout_ms: 300_000,
      max_payload_size: 1_000,
      limits: { maxStreams: 128 },
      agent_id: 'agent',
      extensions: { link: '{}' },
    });
  });

  it('nested writes every field that the reference requires, in its spelling', () => {
    const hello = {
      ...HELLO,
      shape: 'nested',
      version: '3.0',
      algorithms: Object.values(Algorithm),
    } as const;
    expect(helloFields(hello)).toEqual({
      version: '3.0',
      agent_id: 'agent',
      agent_type: expect.any(String),
      compression: {
        algorithms: ['m2m', 'tokennative', 'token', 'brotli', 'dictionary', 'none'],
        max_payload: 1_000,
        streaming: true,
        ml_routing: false,
        encodings: ['O200kBase', 'Cl100kBase'],
        preferred_encoding: 'O200kBase',
      },
      security: {
        threat_detection: true,
        model_version: null,
        blocking_mode: false,
        block_threshold: expect.any(Number),
      },
      extensions: { link: '{}' },
      auth: { token: 'secret' },
    });
  });

  it('nested has a value for the version, the agent and the encoding even if none is set', () => {
    const bare = { ...ACCEPT, shape: 'nested', version: '', encoding: null, agentId: undefined } as const;
    expect(acceptFields(bare)).toMatchObject({
      version: '3.0',
      agent_id: '',
      compression: { preferred_encoding: 'Cl100kBase', streaming: true },
    });
  });

  it('never lets an ACCEPT echo a credential', () => {
    for (const shape of ['flat', 'nested'] as const) {
      const { auth } = HELLO;
      const accept = { ...ACCEPT, shape, auth };
      expect(JSON.stringify(acceptFields(accept))).not.toContain('secret');
    }
  });
});

describe('bounds of capabilities', () => {
  const map = (entries: number) => Object.fromEntries(Array.from({ length: entries }, (_, i) => [i, 'x']));
  it.each([
    ['algorithms', (n: number) => ({ algorithms: new Array(n).fill('NONE') }), 64],
    ['encodings', (n: number) => ({ encodings: new Array(n).fill('CL100K_BASE') }), 64],
    ['extensions', (n: number) => ({ extensions: map(n) }), 64],
    ['an extension', (n: number) => ({ extensions: { link: 'x'.repeat(n) } }), 16 * 1024],
    ['the name of an extension', (n: number) => ({ extensions: { ['x'.repeat(n)]: '' } }), 16 * 1024],
    ['an agent ID', (n: number) => ({ agent_id: 'x'.repeat(n) }), 128],
    ['a version', (n: number) => ({ version: 'x'.repeat(n) }), 32],
    ['a token', (n: number) => ({ auth: { token: 'x'.repeat(n) } }), 16 * 1024],
  ])('%s of n is taken, of n + 1 refused', (_what, payload, n) => {
    expect(errorCode(() => parseHello(payload(n)))).toBe('none');
    expect(errorCode(() => parseHello(payload(n + 1)))).toBe('bad_message');
  });

  it('the first 64 limits of an ACCEPT are read', () => {
    const limits = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`limit${i}`, i]));
    expect(Object.keys(parseAccept({ limits }).limits)).toHaveLength(64);
  });
});
