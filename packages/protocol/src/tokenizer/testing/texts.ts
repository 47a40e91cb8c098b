/** Texts that find differences between tokenizers: many scripts, runs and borders between classes. */

const CHARACTERS = [
  'abcdefghijklmnopqrstuvwxyz',
  'ABCDEFGHIJKLMNOPQRSTUVWXYZ',
  '0123456789',
  '      \t\n\r\n\u00a0\u3000\u0085\u2028\u180e\ufeff\u000b\u000c\u1680\u2007\u202f',
  '\'’.,;:!?/\\|<>-_=+()[]{}"#$%&*@`~^',
  "'s'S'll'LL're'VE'dM'ſ",
  'éèüßñçøåŁőÀÉſKİıƒ',
  'привет как делаМОСКВАёЁ',
  'ΑΒΓαβγςΣ',
  '你好世界中文测试的一是不了人我在有他这',
  'ひらがなカタカナー・「」',
  '안녕하세요한국어',
  'مرحبابالعالمًٌٍَُِّْ',
  'नमस्तेदुनियाक्षि',
  'สวัสดีชาวโลก',
  'עִבְרִית',
  '😀👍🏽👩‍💻🇯🇵❤️🧿🏳️‍🌈',
  '²³½ⅧⅫ١٢٣४५६〇',
  'ǅǈᾈʰˠªº々ー',
  '\u0300\u0301\u0308\u20e3\u200d\u200c\ufe0f\u093f',
  '𝐀𝐁𐐀𐐨𠮷𪜶',
  '\u0000\u0001\u007f\uffff\ue000\u{10ffff}',
].map((characters) => [...characters]);

const WORDS = [
  'the ',
  'The',
  'HELLO',
  ' world',
  'camelCase',
  'XMLHttpRequest',
  'foo_bar',
  "don't",
  "I'LL",
  'http://a.b/c?d=e',
  '{"a":1}',
  '\n\n',
  '\r\n',
  '    ',
  'return ',
  '12345678',
  '1e-5',
  '中文',
  '日本語',
  'naïve',
  '//',
  '\n/',
  '```',
  '  \n  ',
  'a'.repeat(23),
  '.'.repeat(20),
  '='.repeat(90),
  "'re",
  '\u0300a',
];

/** Text that must never become a special token. */
const LOOK_ALIKES = [
  '<|endoftext|>',
  '<|im_start|>',
  '<|endofprompt|>',
  '<|fim_prefix|>',
  '<|begin_of_text|>',
  '<|eot_id|>',
  '<|',
  '|>',
];

export type Random = () => number;

/** A reproducible source of numbers in [0, 1). */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return ((state ^ (state >>> 13)) >>> 0) / 2 ** 32;
  };
}

export function pick<T>(items: readonly T[], random: Random): T {
  return items[Math.floor(random() * items.length)] as T;
}

/** Any code point except a surrogate. */
export function anyCharacter(random: Random): string {
  const codePoint = Math.floor(random() * (0x110000 - 0x800));
  return String.fromCodePoint(codePoint < 0xd800 ? codePoint : codePoint + 0x800);
}

/** One to twelve words, runs of one script, look-alikes or odd characters. */
export function mixedText(random: Random): string {
  let text = '';
  for (let parts = 1 + Math.floor(random() * 12); parts > 0; parts--) {
    const kind = random();
    if (kind < 0.35) text += pick(WORDS, random);
    else if (kind < 0.42) text += pick(LOOK_ALIKES, random);
    else if (kind < 0.92) {
      const script = pick(CHARACTERS, random);
      for (let more = 1 + Math.floor(random() * 12); more > 0; more--) text += pick(script, random);
    } else text += anyCharacter(random);
  }
  return text;
}
