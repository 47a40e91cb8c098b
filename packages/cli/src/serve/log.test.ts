import { ProtocolError } from '@parlance/protocol';
import { describe, expect, it } from 'vitest';
import { createPaper } from '../base/testing/paper.js';
import { createLog } from './log.js';

describe('the log', () => {
  it('consists of JSON lines without a terminal', () => {
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
      // Foreign errors are logged without their message.
      expect.objectContaining({ err: { type: 'TypeError', at: expect.any(Array) } }),
    ]);
    expect(paper.text()).not.toContain('canary');
    expect(new Date(entries[0].time).getTime()).toBeGreaterThan(0);
  });

  it('is readable on a terminal, with control characters escaped', () => {
    const paper = createPaper(100);
    const err = new ProtocolError('timeout', 'no\u001b[2J');
    createLog('debug', paper.terminal).warn({ ip: '::1', err }, 'refused\nhere');
    expect(paper.text()).toMatch(
      /^\d\d:\d\d:\d\d\.\d{3} {2}warn {3}refused\\nhere {2}ip=::1 {2}error="no\\u001b\[2J"\n$/,
    );
  });

  it('redacts fields named like credentials', () => {
    const paper = createPaper();
    createLog('info', paper.terminal).info(
      { token: 'canary', headers: { authorization: 'canary' } },
      'a slip',
    );
    expect(paper.text()).not.toContain('canary');
  });
});
