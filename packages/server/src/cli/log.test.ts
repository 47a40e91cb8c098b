import { ProtocolError } from '@parlance/protocol';
import { describe, expect, it } from 'vitest';
import { createLog } from './log.js';
import { createPaper } from './testing/paper.js';

describe('the log', () => {
  it('is a JSON object a line where nobody looks', () => {
    const paper = createPaper();
    const log = createLog('info', paper.terminal);
    log.info({ session: 's1' }, 'session accepted');
    log.debug({}, 'not shown');
    log.error({ err: new ProtocolError('timeout', 'too late') }, 'failed');
    log.error({ err: new TypeError('quotes a canary') }, 'failed');
    const entries = paper.lines().map((line) => JSON.parse(line));
    expect(entries).toEqual([
      { level: 'info', time: expect.any(String), session: 's1', msg: 'session accepted' },
      {
        level: 'error',
        time: expect.any(String),
        err: expect.objectContaining({ code: 'timeout', message: 'too late' }),
        msg: 'failed',
      },
      // Of others' errors only what they are.
      expect.objectContaining({ err: { type: 'TypeError', at: expect.any(Array) } }),
    ]);
    expect(paper.text()).not.toContain('canary');
    expect(new Date(entries[0].time).getTime()).toBeGreaterThan(0);
  });

  it('is for people on a terminal, and keeps control characters away from it', () => {
    const paper = createPaper(100);
    const err = new ProtocolError('timeout', 'no\u001b[2J');
    createLog('debug', paper.terminal).warn({ ip: '::1', err }, 'refused\nhere');
    expect(paper.text()).toMatch(
      /^\d\d:\d\d:\d\d\.\d{3} {2}warn {3}refused\\nhere {2}ip=::1 {2}error="no\\u001b\[2J"\n$/,
    );
  });

  it('withholds what is called a credential', () => {
    const paper = createPaper();
    createLog('info', paper.terminal).info(
      { token: 'canary', headers: { authorization: 'canary' } },
      'a slip',
    );
    expect(paper.text()).not.toContain('canary');
  });
});
