// What a reader chose stands in the address: #?find=online&sort=3.ascending&cell=softmax.b4096
const state = new Map();
const readState = () => {
  state.clear();
  if (location.hash.startsWith("#?")) {
    for (const [key, value] of new URLSearchParams(location.hash.slice(2))) state.set(key, value);
  }
};
let restoring = true; // until the state of the address is read, nothing is written to it
const keep = (key, value) => {
  if (restoring) return;
  if (value === "" || value === null) state.delete(key); else state.set(key, value);
  const text = new URLSearchParams([...state]).toString();
  history.replaceState(null, "", text ? "#?" + text : location.pathname + location.search);
};
