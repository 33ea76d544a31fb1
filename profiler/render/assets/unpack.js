// Data of a page, from a script element: JSON, deflated, in base64 (embed.py). All of a page's scripts see this.
const unpacked = async (element) => {
  const bytes = Uint8Array.from(atob(element.textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).json();
};
