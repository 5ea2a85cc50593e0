{{/* CEL: (list NEW OLD KEYS): two maps are equal except for these keys. */}}
{{- define "fraction-injector.celSame" }}
{{- $new := index . 0 }}{{ $old := index . 1 }}{{ $but := index . 2 -}}
({{ $new }}.all(k, k in {{ $but }} || k in {{ $old }} && {{ $new }}[k] == {{ $old }}[k]) &&
{{ $old }}.all(k, k in {{ $but }} || k in {{ $new }}))
{{- end }}
