'use client';

import { useEffect } from 'react';
import { exchange, share, useAll } from '../page.js';

export default function Page() {
  useEffect(() => {
    Object.assign(globalThis, { exchange, share, useAll });
  }, []);
  return <p>A page</p>;
}
