/** A noun with its article, as it is spoken: "an Error", "a URL", "a Uint8Array". */
export function withArticle(noun: string): string {
  return `${/^(?:[aeio]|un(?!i))/i.test(noun) ? 'an' : 'a'} ${noun}`;
}
