"""The cache: a list replaces, old news changes nothing, our own writes count at once, one odd object stops no other."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from gpujob.cluster.cache.object_cache import Kind, ObjectCache
from gpujob.cluster.cache.object_key import MalformedObject, version_number
from gpujob.cluster.client.paths import Resource

PODS = Kind("pods", Resource("", "v1", "pods"))
NODES = Kind("nodes", Resource("", "v1", "nodes", namespaced=False))


def pod(name: str, version: int | str, uid: str = "", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "ns", "name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version)},
        "spec": spec,
    }


def listed(*objects: dict[str, Any], version: int | str = 100) -> ObjectCache:
    cache = ObjectCache([PODS])
    cache.replace("pods", objects, str(version))
    cache.take_changes()
    return cache


def names(cache: ObjectCache) -> set[str]:
    return {name for _, name in cache.objects("pods")}


def test_is_complete_only_when_every_kind_was_listed_even_if_it_is_empty() -> None:
    cache = ObjectCache([PODS, NODES])
    cache.replace("pods", [pod("a", 1)], "10")
    assert not cache.complete
    cache.take_changes()
    cache.replace("nodes", [], "10")
    assert cache.complete
    assert cache.changed.is_set()


def test_events_alone_do_not_make_a_kind_complete() -> None:
    cache = ObjectCache([PODS])
    cache.apply("pods", "ADDED", pod("a", 1))
    assert not cache.complete


def test_a_list_replaces_the_kind_and_what_it_lacks_is_gone() -> None:
    cache = listed(pod("a", 1), pod("ghost", 2))
    cache.replace("pods", [pod("a", 1), pod("new", 150)], "200")
    assert names(cache) == {"a", "new"}
    assert cache.take_changes() == {"pods": {("ns", "ghost"), ("ns", "new")}}


def test_a_list_brings_the_successor_of_an_object_that_was_made_again_under_its_name() -> None:
    cache = listed(pod("a", 1, uid="old"))
    cache.replace("pods", [pod("a", 150, uid="new")], "200")
    assert cache.objects("pods")[("ns", "a")]["metadata"]["uid"] == "new"


def test_an_event_older_than_what_is_held_changes_nothing() -> None:
    cache = listed(pod("a", 50, gpus=8))
    version = cache.version("pods")
    cache.apply("pods", "MODIFIED", pod("a", 40, gpus=1))
    assert cache.objects("pods")[("ns", "a")]["spec"] == {"gpus": 8}
    assert cache.version("pods") == version
    assert cache.take_changes() == {}


def test_versions_are_compared_as_numbers_not_as_text() -> None:
    cache = listed(pod("a", 99, gpus=1), version=99)
    cache.apply("pods", "MODIFIED", pod("a", 100, gpus=2))
    assert cache.objects("pods")[("ns", "a")]["spec"] == {"gpus": 2}


def test_versions_that_are_no_numbers_count_in_the_order_in_which_they_come() -> None:
    cache = listed(pod("a", "b", gpus=1), version="x")
    cache.apply("pods", "MODIFIED", pod("a", "a", gpus=2))
    assert cache.objects("pods")[("ns", "a")]["spec"] == {"gpus": 2}
    cache.note_written("pods", pod("mine", "c"))
    cache.replace("pods", [pod("a", "d", gpus=3)], "y")
    assert names(cache) == {"a"}
    assert [version_number(text) for text in ("12", "", "1a", "-1", "١", None)] == [12, None, None, None, None, None]


def test_a_new_object_of_the_same_name_replaces_and_the_end_of_the_old_one_does_not_remove_it() -> None:
    cache = listed(pod("a", 50, uid="old"))
    cache.apply("pods", "ADDED", pod("a", 120, uid="new"))
    cache.apply("pods", "DELETED", pod("a", 119, uid="old"))
    assert cache.objects("pods")[("ns", "a")]["metadata"]["uid"] == "new"


def test_our_own_write_is_there_at_once_and_its_echo_wakes_nobody() -> None:
    cache = listed()
    cache.note_written("pods", pod("mine", 120, gpus=1))
    assert cache.changed.is_set()
    assert cache.take_changes() == {"pods": {("ns", "mine")}}
    cache.apply("pods", "ADDED", pod("mine", 120, gpus=1))
    assert not cache.changed.is_set()
    assert cache.take_changes() == {}


def test_our_own_write_survives_events_and_lists_that_are_older_than_it() -> None:
    cache = listed(pod("a", 50, gpus=1))
    cache.note_written("pods", pod("a", 130, gpus=2))
    cache.note_written("pods", pod("mine", 131))
    cache.apply("pods", "MODIFIED", pod("a", 110, gpus=7))
    cache.replace("pods", [pod("a", 110, gpus=7)], "125")
    assert names(cache) == {"a", "mine"}
    assert cache.objects("pods")[("ns", "a")]["spec"] == {"gpus": 2}


def test_our_own_write_gives_way_to_a_list_that_is_newer_than_it() -> None:
    cache = listed()
    cache.note_written("pods", pod("mine", 130))
    cache.replace("pods", [], "140")
    assert names(cache) == set()


def test_an_object_that_only_a_watch_brought_does_not_survive_a_list_that_lacks_it() -> None:
    cache = listed()
    cache.note_written("pods", pod("mine", 130))
    cache.apply("pods", "MODIFIED", pod("mine", 135))
    cache.replace("pods", [], "136")
    assert names(cache) == set()


def test_a_late_answer_of_our_write_does_not_bring_the_dead_back() -> None:
    cache = listed(pod("a", 50))
    cache.apply("pods", "DELETED", pod("a", 131))
    cache.note_written("pods", pod("a", 130))
    assert names(cache) == set()


def test_a_bookmark_is_as_good_as_an_event_for_telling_that_an_answer_is_late() -> None:
    cache = listed()
    cache.bookmark("pods", "200")
    cache.note_written("pods", pod("a", 150))
    assert names(cache) == set()


def test_our_own_delete_counts_at_once_and_older_news_cannot_undo_it() -> None:
    cache = listed(pod("a", 50))
    cache.note_deleted("pods", "ns", "a", "uid-a", {"kind": "Status", "status": "Success"})
    assert names(cache) == set()
    cache.apply("pods", "MODIFIED", pod("a", 110))
    cache.replace("pods", [pod("a", 110)], "115")
    assert names(cache) == set()
    cache.apply("pods", "DELETED", pod("a", 120))
    cache.apply("pods", "ADDED", pod("a", 121, uid="next"))
    assert names(cache) == {"a"}


def test_two_lists_in_a_row_that_show_what_we_deleted_are_believed() -> None:
    cache = listed(pod("a", 50))
    cache.note_deleted("pods", "ns", "a", "uid-a")
    cache.replace("pods", [pod("a", 110)], "115")
    cache.replace("pods", [pod("a", 110)], "116")
    assert names(cache) == {"a"}


def test_a_delete_that_only_began_leaves_the_object_with_its_deletion_time_until_it_is_gone() -> None:
    cache = listed(pod("a", 50))
    answer = pod("a", 120)
    answer["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    cache.note_deleted("pods", "ns", "a", "uid-a", answer)
    held = cache.get("pods", "ns", "a")
    assert held is not None
    assert held["metadata"]["deletionTimestamp"]
    cache.apply("pods", "DELETED", pod("a", 121))
    assert cache.get("pods", "ns", "a") is None


def test_a_delete_of_another_uid_leaves_the_object_alone() -> None:
    cache = listed(pod("a", 50, uid="new"))
    cache.note_deleted("pods", "ns", "a", "old")
    assert names(cache) == {"a"}


def test_a_store_that_went_back_in_time_is_believed() -> None:
    cache = listed(pod("a", 900), version=1000)
    cache.note_written("pods", pod("mine", 1001))
    cache.replace("pods", [pod("a", 40, gpus=1)], "50")
    assert names(cache) == {"a"}
    assert cache.objects("pods")[("ns", "a")]["spec"] == {"gpus": 1}
    cache.apply("pods", "MODIFIED", pod("a", 51, gpus=2))
    cache.note_written("pods", pod("b", 52))
    assert names(cache) == {"a", "b"}


def test_an_update_of_what_slim_leaves_out_is_no_change() -> None:
    cache = ObjectCache([Kind("pods", PODS.resource, slim=lambda obj: {"gpus": obj["spec"]["gpus"]})])
    cache.replace("pods", [pod("a", 1, gpus=8)], "10")
    cache.take_changes()
    before = cache.objects("pods")[("ns", "a")]
    cache.apply("pods", "MODIFIED", pod("a", 11, gpus=8))
    assert not cache.changed.is_set()
    assert cache.objects("pods")[("ns", "a")] is before
    cache.apply("pods", "MODIFIED", pod("a", 12, gpus=4))
    assert cache.take_changes() == {"pods": {("ns", "a")}}


def test_a_record_is_joined_with_the_last_one_of_its_object() -> None:
    most = Kind("pods", PODS.resource, joins=lambda held, obj: obj | {"spec": max(held["spec"], obj["spec"], key=str)})
    cache = ObjectCache([most])
    cache.replace("pods", [pod("a", 1, gpus=8)], "10")
    cache.take_changes()
    cache.apply("pods", "MODIFIED", pod("a", 11, gpus=4))
    assert cache.objects("pods")[("ns", "a")]["spec"] == {"gpus": 8}
    cache.replace("pods", [pod("a", 11, gpus=4)], "12")
    assert cache.objects("pods")[("ns", "a")]["spec"] == {"gpus": 8}
    cache.apply("pods", "DELETED", pod("a", 13))
    cache.apply("pods", "ADDED", pod("a", 14, gpus=4))
    assert cache.objects("pods")[("ns", "a")]["spec"] == {"gpus": 4}


def test_an_object_that_slim_cannot_digest_is_kept_out_named_and_stops_nobody() -> None:
    cache = ObjectCache([Kind("pods", PODS.resource, slim=lambda obj: {"gpus": obj["spec"]["gpus"]})])
    cache.replace("pods", [pod("odd", 1), pod("good", 2, gpus=8), {"no": "metadata"}], "10")
    assert names(cache) == {"good"}
    assert cache.refused("pods") == {("ns", "odd"): "KeyError: 'gpus'"}
    assert (cache.refusals["pods"], cache.malformed["pods"]) == (1, 1)
    cache.apply("pods", "MODIFIED", pod("odd", 11, gpus=1))
    assert names(cache) == {"good", "odd"}
    assert cache.refused("pods") == {}


def test_an_object_is_named_in_the_log_when_it_becomes_odd_and_not_with_each_event() -> None:
    cache = ObjectCache([Kind("pods", PODS.resource, slim=lambda obj: {"gpus": obj["spec"]["gpus"]})])
    with capture_logs() as logs:
        cache.replace("pods", [pod("odd", 1), pod("good", 2, gpus=8)], "10")
        cache.apply("pods", "MODIFIED", pod("odd", 11))
        cache.replace("pods", [pod("odd", 11), pod("good", 2, gpus=8)], "12")
    assert [(log["event"], log["kind"], log["namespace"], log["name"]) for log in logs] == [
        ("object kept out", "pods", "ns", "odd")
    ]
    assert cache.refusals["pods"] == 3


def test_a_list_wakes_the_reader_where_it_differs_alone() -> None:
    cache = listed(pod("a", 1, gpus=8))
    cache.replace("pods", [pod("a", 1, gpus=8)], "200")
    assert not cache.changed.is_set()
    cache.replace("pods", [pod("a", 250, gpus=4)], "300")
    assert cache.changed.is_set()


def test_an_object_that_turns_odd_leaves_and_its_deletion_leaves_nothing_behind() -> None:
    cache = ObjectCache([Kind("pods", PODS.resource, slim=lambda obj: {"gpus": obj["spec"]["gpus"]})])
    cache.replace("pods", [pod("a", 1, gpus=8)], "10")
    cache.take_changes()
    cache.apply("pods", "MODIFIED", pod("a", 11))
    assert cache.take_changes() == {"pods": {("ns", "a")}}
    cache.apply("pods", "DELETED", pod("a", 12))
    assert cache.refused("pods") == {}


@pytest.mark.parametrize("odd", [{}, {"metadata": None}, {"metadata": {}}, {"metadata": {"name": 7}}, [], None])
def test_an_event_without_a_name_is_malformed(odd: Any) -> None:
    with pytest.raises(MalformedObject):
        listed().apply("pods", "ADDED", odd)


def test_an_unknown_event_type_is_malformed() -> None:
    with pytest.raises(MalformedObject, match="no event type 'RENAMED'"):
        listed().apply("pods", "RENAMED", pod("a", 101))


def test_objects_of_the_cluster_itself_have_no_namespace() -> None:
    cache = ObjectCache([NODES])
    cache.replace("nodes", [{"metadata": {"name": "n1", "resourceVersion": "1"}}], "2")
    assert cache.get("nodes", None, "n1") is cache.objects("nodes")[("", "n1")]


def test_the_version_of_a_kind_grows_with_each_change() -> None:
    cache = listed(pod("a", 1))
    seen = [cache.version("pods")]
    cache.apply("pods", "MODIFIED", pod("a", 101, gpus=1))
    seen.append(cache.version("pods"))
    cache.apply("pods", "DELETED", pod("a", 102))
    seen.append(cache.version("pods"))
    assert seen == sorted(set(seen))
