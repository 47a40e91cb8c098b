import { type Capabilities, ProtocolError } from '@parlance/protocol';
import { beforeEach, expect, it, vi } from 'vitest';
import { loadCapabilities } from './load-codecs.js';

let failure: ProtocolError | undefined;
vi.mock('@parlance/protocol', async (original) => ({
  ...(await original<object>()),
  loadCodecs: async (names: readonly string[]) => {
    if (names.includes('CONTEXT') && failure !== undefined) throw failure;
  },
}));

const warn = vi.fn();
const logger = { debug() {}, info() {}, warn, error() {} };
const capabilities: Capabilities = {
  algorithms: ['BROTLI'],
  encodings: [],
  vocabularies: {},
  securityScanning: false,
  maxPayloadSize: 0,
  extensions: { link: '{}', context: '{}' },
};

beforeEach(() => {
  warn.mockClear();
  failure = undefined;
});

it('leaves out context with one warning if zstd cannot be loaded', async () => {
  failure = new ProtocolError('codec_not_loaded', 'no zstd.wasm');
  expect(await loadCapabilities(capabilities, logger)).toEqual({
    ...capabilities,
    extensions: { link: '{}' },
  });
  expect(warn.mock.calls.map(([fields]) => fields.event)).toEqual(['server.no_context']);
});

it('passes on other failures', async () => {
  failure = new ProtocolError('internal', 'a fault');
  await expect(loadCapabilities(capabilities, logger)).rejects.toBe(failure);
});

it('changes nothing if everything loads', async () => {
  expect(await loadCapabilities(capabilities, logger)).toBe(capabilities);
  expect(warn).not.toHaveBeenCalled();
});
