"""Who may follow the stream: as many as there is room for."""

from tests.web.asking import Request, Source, is_whole, page_of, watching
from web import stream


def test_no_more_viewers_are_served_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr(stream, "MAX_VIEWERS", 1)
    source = Source("a")
    page = page_of(source)

    async def watch(request):
        await request.until(is_whole)
        other = await Request(page, "/stream").run()
        request.gone.set()
        return other

    other = watching(page, watch)
    message = b"there are 1 viewers already: close one, or try again later\n"
    assert (other.status, other.body) == (503, message)
    assert source.readers == []
