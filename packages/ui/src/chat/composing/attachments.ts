import { byId, create } from '../../shared/dom.js';
import { bytes } from '../../shared/format.js';
import type { Attachment } from '../conversation.js';
import { readFile } from './read-file.js';

/** The files and pictures that go with the next question. */
export interface Attachments {
  readonly isEmpty: boolean;
  /** Takes them away. */
  take(): readonly Attachment[];
  set(attached: readonly Attachment[]): void;
}

/**
 * @param maxBytes how much one question may carry, at present.
 * @param onChange called after the user has added or removed one.
 */
export function createAttachments(maxBytes: () => number, onChange: () => void): Attachments {
  const list = byId('attached');
  const told = byId('attached-told');
  const field = byId<HTMLInputElement>('files');
  const question = byId<HTMLTextAreaElement>('question');
  const form = byId('composer');
  let attached: Attachment[] = [];

  async function add(files: Iterable<File>): Promise<void> {
    const faults: string[] = [];
    for (const file of files) {
      const left = maxBytes() - sizeOf(attached);
      if (file.size > left) {
        faults.push(
          `“${file.name}” has ${bytes(file.size)}, and there is room for ${bytes(Math.max(0, left))}.`,
        );
        continue;
      }
      const read = await readFile(file);
      if (read === undefined) faults.push(`“${file.name}” is neither a picture nor text.`);
      else attached.push(read);
    }
    show(faults.join(' '));
    onChange();
  }

  function show(fault = ''): void {
    list.hidden = attached.length === 0;
    list.replaceChildren(
      ...attached.map((each) => {
        const remove = create('button', { type: 'button', ariaLabel: `Remove “${each.name}”` }, '×');
        remove.addEventListener('click', () => {
          attached = attached.filter((other) => other !== each);
          show();
          onChange();
          question.focus();
        });
        return create('li', {}, ...describeFile(each), remove);
      }),
    );
    const total =
      attached.length === 0
        ? ''
        : `${bytes(sizeOf(attached))} will be sent with the question, and again with each later one.`;
    told.textContent = [fault, total].filter((text) => text !== '').join(' ');
    told.hidden = told.textContent === '';
  }

  byId('attach').addEventListener('click', () => field.click());
  field.addEventListener('change', () => {
    void add([...(field.files ?? [])]);
    field.value = '';
  });
  question.addEventListener('paste', (event) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length === 0) return;
    event.preventDefault();
    void add(files);
  });
  const hasFiles = ({ dataTransfer }: DragEvent) => dataTransfer?.types.includes('Files') === true;
  document.addEventListener('dragover', (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    form.classList.add('dropping');
  });
  document.addEventListener('dragleave', ({ relatedTarget }) => {
    if (relatedTarget === null) form.classList.remove('dropping');
  });
  document.addEventListener('drop', (event) => {
    form.classList.remove('dropping');
    if (!hasFiles(event)) return;
    event.preventDefault();
    void add([...(event.dataTransfer?.files ?? [])]);
  });

  return {
    get isEmpty() {
      return attached.length === 0;
    },
    take() {
      const taken = attached;
      attached = [];
      show();
      return taken;
    },
    set(given) {
      attached = [...given];
      show();
    },
  };
}

function sizeOf(attached: readonly Attachment[]): number {
  return attached.reduce((sum, { content }) => sum + content.length, 0);
}

/** The picture or the name of a file, with its size. */
export function describeFile({ name, kind, content }: Attachment): HTMLElement[] {
  const size = create('small', {}, bytes(content.length));
  return kind === 'picture'
    ? [create('img', { src: content, alt: name, title: name }), size]
    : [create('span', { dir: 'auto' }, name), size];
}
