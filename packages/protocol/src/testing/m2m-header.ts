import assert from 'node:assert/strict';
import { utf8Length } from '../base/text.js';
import type { M2MHeader } from '../codec/m2m/fields.js';

/** Asserts that every value in the header is that of the message (protocol page, section 4). */
export function checkHeaderIsTrue(header: M2MHeader, message: unknown): void {
  const object = asObject(message);
  if ('model' in header) assert.equal(header.model, typeof object.model === 'string' ? object.model : '');
  if ('id' in header) assert.equal(header.id, typeof object.id === 'string' ? object.id : '');
  if (!('roles' in header)) return;
  const messages = (Array.isArray(object.messages) ? object.messages : []).map(asObject);
  assert.equal(header.msgCount, messages.length);
  const roles = messages.map(({ role }) => (role === 'developer' ? 'system' : role));
  assert.deepEqual(header.roles, roles);
  const texts = messages.flatMap(({ content }) =>
    Array.isArray(content) ? content.map((part) => asObject(part).text) : [content],
  );
  const hint = texts.reduce<number>(
    (sum, text) => sum + (typeof text === 'string' ? utf8Length(text) : 0),
    0,
  );
  assert.equal(header.contentHint, hint);
  const isCount = (value: unknown) =>
    Number.isInteger(value) && (value as number) >= 0 && (value as number) < 2 ** 32;
  const limit = [object.max_tokens, object.max_completion_tokens].find(isCount);
  assert.equal(header.maxTokens, limit);
}

function asObject(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}
