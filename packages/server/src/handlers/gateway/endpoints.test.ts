import { expect, it } from 'vitest';
import { endpointOf, type FilesPolicy, isServedPath } from './endpoints.js';
import { GatewayFailure } from './failure.js';

function outcome(method: string, path: string, files: FilesPolicy = 'byId'): string {
  try {
    return endpointOf(method, path, files).path;
  } catch (error) {
    if (error instanceof GatewayFailure) return error.code;
    throw error;
  }
}

it.each([
  ['POST', '/v1/chat/completions?api-version=1', '/chat/completions'],
  ['POST', '/any/completions', '/completions'],
  ['POST', '/v1/audio/transcriptions', '/audio/transcriptions'],
  ['POST', '/v1/images/edits', '/images/edits'],
  ['GET', '/v1/chat/completions', 'method_not_allowed'],
  ['GET', '/v1/models', '/models'],
  ['GET', '/v1/models/gpt-4o', '/models/gpt-4o'],
  ['GET', '/v1/models/meta%2Fllama-3', '/models/meta%2Fllama-3'],
  ['DELETE', '/v1/models/gpt-4o', 'method_not_allowed'],
  ['POST', '/v1/files', '/files'],
  ['GET', '/v1/files', 'method_not_allowed'],
  ['GET', '/v1/files/file-a_1', '/files/file-a_1'],
  ['DELETE', '/v1/files/file-a_1', '/files/file-a_1'],
  ['GET', '/v1/files/file-a_1/content', '/files/file-a_1/content'],
  ['DELETE', '/v1/files/file-a_1/content', 'method_not_allowed'],
  ['POST', '/v1/fine_tuning/jobs', 'unknown_path'],
  ['POST', '/v1/uploads', 'unknown_path'],
])('%s %s is %s', (method, path, expected) => {
  expect(outcome(method, path)).toBe(expected);
});

it('names no path of the upstream but its endpoints', () => {
  const ids = [
    '..',
    '%2e%2e',
    '.%2E',
    'a%2F..%2Fb',
    'a%2f%2e%2e',
    '%2F',
    'a%00',
    'a%5Cb',
    '%',
    'a%3Fb',
    'a%23',
    ';',
    'a b',
  ];
  for (const id of ids) {
    expect(outcome('GET', `/v1/models/${id}`)).toBe('unknown_path');
    expect(outcome('GET', `/v1/files/${id}`)).toBe('unknown_path');
    expect(outcome('GET', `/v1/files/${id}/content`)).toBe('unknown_path');
  }
  expect(outcome('GET', `/v1/files/${'a'.repeat(128)}`)).toBe(`/files/${'a'.repeat(128)}`);
  expect(outcome('GET', `/v1/files/${'a'.repeat(129)}`)).toBe('unknown_path');
});

it('lists files only if the operator wants it, and passes on the parameters of lists', () => {
  expect(outcome('GET', '/v1/files?purpose=a%26b&limit=2&secret=x', 'all')).toBe(
    '/files?limit=2&purpose=a%26b',
  );
  for (const path of ['/v1/files', '/v1/files/x']) expect(outcome('GET', path, false)).toBe('unknown_path');
});

it('leaves paths that are not below /v1/ to others', () => {
  for (const path of [
    '/v1/models',
    '/v1/models/x?y',
    '/v1/files',
    '/v1/chat/completions',
    '/v1/any/responses',
  ])
    expect(isServedPath(path, 'byId')).toBe(true);
  for (const path of ['/models', '/files', '/api/v1/models', '/chat/completions', '/v1/other', '/v1?/models'])
    expect(isServedPath(path, 'byId')).toBe(false);
  expect(isServedPath('/v1/files', false)).toBe(false);
});
