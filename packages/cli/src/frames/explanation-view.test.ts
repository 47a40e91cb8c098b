import { encodeControl, encodeText, loadEncoding } from '@parlance/protocol';
import { explainFrame } from '@parlance/protocol/inspect';
import { beforeAll, describe, expect, it } from 'vitest';
import { fromHex } from '../../../protocol/src/base/testing/bytes.js';
import { createPaper } from '../base/testing/paper.js';
import { widthOf } from '../base/text-layout.js';
import { showExplanation } from './explanation-view.js';

beforeAll(async () => {
  await loadEncoding('CL100K_BASE');
});

const explain = (frame: Uint8Array | string) =>
  explainFrame(frame, { preview: 400, encoding: 'CL100K_BASE' });

describe('an explanation for people', () => {
  it('states the kind of the frame, the meaning of each byte, and the verdict', () => {
    const paper = createPaper();
    showExplanation(paper.terminal, explain(fromHex('110101b24d0bfd0e00')), { hex: true });
    expect(paper.lines()).toEqual([
      'link frame: request  9 bytes, binary',
      '  Carries one step of a conversation within a session.',
      '',
      '  “Hello, world!”, TOKEN_NATIVE: 4 tokens for 13 bytes of text',
      '',
      '  offset  bytes                    field            value         meaning',
      '       0  11                       kind             request       opens a stream and expects a reply',
      '       1  01                       stream           1             opened by the client',
      '       2  01                       codec and flags  TOKEN_NATIVE  how the body is encoded',
      '       3                           token IDs',
      '       3  b2 4d                      token 1        9906          “Hello”',
      '       5  0b                         token 2        11            “,”',
      '       6  fd 0e                      token 3        1917          “ world”',
      '       8  00                         token 4        0             “!”',
      '',
      '  ✓ the frame is valid',
    ]);
  });

  it('shows where a frame is damaged', () => {
    const paper = createPaper();
    showExplanation(paper.terminal, explain(fromHex('1501c1c2')), { hex: false });
    expect(paper.lines().slice(-5)).toEqual([
      '       0     1  kind      error  the request failed',
      '       1     1  stream    1      opened by the client',
      '       2     2  not read',
      '',
      expect.stringMatching(/^ {2}✗ bad_message at byte 2: /),
    ]);
  });

  it('counts offsets from zero inside decoded bytes', () => {
    const paper = createPaper();
    showExplanation(paper.terminal, explain(encodeText('Hello', 'TOKEN_NATIVE')), { hex: false });
    expect(paper.text()).toMatch(/\+0 +\d+ +token IDs/);
    expect(paper.text()).toContain('offset within the decoded bytes of the field above');
  });

  it('fits terminals of any width', () => {
    const ping = encodeControl({ type: 'PING', sessionId: 'sess_1', timestamp: 1, payload: {} });
    const long = encodeText(JSON.stringify({ text: 'long 世界 '.repeat(40) }), 'BROTLI');
    for (const columns of [30, 50, 71, 72, 100, 200]) {
      for (const frame of [fromHex('110101b24d0bfd0e00'), ping, long]) {
        for (const each of [true, false]) {
          const paper = createPaper(columns);
          showExplanation(paper.terminal, explain(frame), { hex: each });
          const tooLong = paper.lines().filter((line) => widthOf(line) > columns);
          expect(tooLong, `${columns} columns`).toEqual([]);
        }
      }
    }
  });

  it('has the same text with and without colours', () => {
    const [plain, coloured] = [createPaper(100), createPaper(100, true)];
    for (const { terminal } of [plain, coloured])
      showExplanation(terminal, explain(fromHex('1401')), { hex: true });
    const escapes = new RegExp(`${String.fromCharCode(27)}\\[\\d+m`, 'g');
    expect(plain.text()).not.toMatch(escapes);
    expect(coloured.text()).toMatch(escapes);
    expect(coloured.text().replace(escapes, '')).toBe(plain.text());
  });
});
