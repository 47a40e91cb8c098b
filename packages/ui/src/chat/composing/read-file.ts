import type { Attachment } from '../conversation.js';

/** The types that models take as pictures. */
const PICTURES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

/** Reads a picture or a text; `undefined` if the file is neither. */
export async function readFile(file: File): Promise<Attachment | undefined> {
  const { name, type } = file;
  if (PICTURES.includes(type)) return { name, kind: 'picture', content: await dataUrlOf(file) };
  const content = await textOf(file);
  return content === undefined ? undefined : { name, kind: 'text', content };
}

function dataUrlOf(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener('load', () => resolve(String(reader.result)));
    reader.addEventListener('error', () => reject(reader.error));
    reader.readAsDataURL(file);
  });
}

/** `undefined` if these bytes are no text. */
async function textOf(file: File): Promise<string | undefined> {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
    return text.includes('\0') ? undefined : text;
  } catch {
    return undefined;
  }
}
