import { useSession, useStream } from '@parlance/client/react';
import { createElement, type FunctionComponent, StrictMode } from 'react';
import { createRoot } from 'react-dom/client';

/** A page whose component changes while it is shown, as React Fast Refresh changes the edited ones of a development server. */
export interface RefreshedPage {
  edit(): void;
}

/** As development servers call React. The hook of its tools hands this out, before React is loaded. */
interface Refresher {
  setRefreshHandler(familyOf: (type: unknown) => object | undefined): void;
  scheduleRefresh(root: unknown, update: Record<'staleFamilies' | 'updatedFamilies', Set<object>>): void;
}
const { tools } = globalThis as never as { tools: { refresher: Refresher; root: unknown } };
const { refresher } = tools;

const url = new URLSearchParams(location.search).get('server');
const written = (version: string): FunctionComponent =>
  function Chat() {
    const { session, id } = useSession(url);
    const { value, start } = useStream(session);
    const shown = [version, id, value].map((text, i) => createElement('output', { key: i }, text));
    return [
      ...shown,
      createElement('button', { key: 'ask', type: 'button', onClick: () => start('a question') }),
    ];
  };

const Chat = written('first');
const family = { current: Chat };
refresher.setRefreshHandler((type) => (type === Chat || type === family.current ? family : undefined));
const edit = () => {
  family.current = written('second');
  refresher.scheduleRefresh(tools.root, { staleFamilies: new Set(), updatedFamilies: new Set([family]) });
};
Object.assign(globalThis, { edit } satisfies RefreshedPage);
createRoot(document.body).render(createElement(StrictMode, null, createElement(Chat)));
