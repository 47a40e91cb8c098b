import { parseAst } from 'rolldown/parseAst';
import { describe, expect, it } from 'vitest';
import { SentenceTable, takeSentences } from './sentences.mjs';

function take(code: string) {
  const table = new SentenceTable();
  const rest = takeSentences(code, parseAst, table, './say.js');
  return { rest: rest.replace("import { say } from './say.js';\n", ''), table: table.code };
}

describe('takeSentences', () => {
  it('takes the text of an error out, and leaves its values', () => {
    const { rest, table } = take(
      // biome-ignore lint/suspicious/noTemplateCurlyInString: it is code
      "throw new ProtocolError('bad_frame', `stream ${id} sent more than its credit of ${limits.max}`, { cause });",
    );
    expect(rest).toBe("throw new ProtocolError('bad_frame', say(0, id, limits.max), { cause });");
    expect(table).toBe('export const sentences = [\n["stream "," sent more than its credit of ",""]\n];\n');
  });

  it('gives equal sentences one number, and each branch of a condition its own', () => {
    const { rest, table } = take(`
      a(toProtocolError(error, 'internal', 'the session failed on a frame'));
      b(new ProtocolError('timeout', is ? 'the session failed on a frame' : "no answer \\u00fc 'in' time"));
      c(bad(field, 'a list of names, or nothing'));`);
    expect(rest.match(/say\(\d\)/g)).toEqual(['say(0)', 'say(0)', 'say(1)', 'say(2)']);
    expect(table).toContain(`["no answer ü 'in' time"]`);
  });

  it('leaves everything else as it is', () => {
    const code = `
      new ProtocolError(code, message);
      new ProtocolError('bad_frame', 'short');
      new Error('a sentence of another error, which has no code');
      say('a sentence that is not that of an error');`;
    expect(take(code).rest).toBe(code);
  });

  it('counts in characters', () => {
    expect(take("const ü = '😀'; throw new ProtocolError('timeout', 'the server says nothing');").rest).toBe(
      "const ü = '😀'; throw new ProtocolError('timeout', say(0));",
    );
  });
});
