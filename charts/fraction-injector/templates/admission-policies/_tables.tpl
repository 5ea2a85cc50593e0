{{/*
What the lock judges pods by: name to CEL, as JSON, made of policies, limiters and queues. An API server takes up a change
at once, a webhook when its node has brought it the ConfigMap: the lock keeps the tables before the change, and a pod that
says their number is judged by them.
*/}}
{{- define "fraction-injector.lockTables" -}}
{{- dict
  "limitedByAgent" (include "fraction-injector.celLimitedByAgent" .)
  "limits" (include "fraction-injector.celLimits" .)
  "pattern" (include "fraction-injector.namePattern" . | toJson)
  "policiesOfQueues" (include "fraction-injector.celPoliciesOfQueues" .)
  "policyOfNamespace" (include "fraction-injector.celPolicyOfNamespace" .)
  "preferring" (include "fraction-injector.celPreferring" .)
  "resources" (include "fraction-injector.celResources" .)
  "slicesPerGpu" (include "fraction-injector.celSlicesPerGpu" .)
  "texts" (include "fraction-injector.celTexts" .)
  | toJson -}}
{{- end -}}

{{/* The number of the tables; pods have it after the digest in clearml-injector/injected. */}}
{{- define "fraction-injector.lockNumber" -}}
{{- include "fraction-injector.lockTables" . | sha256sum | trunc 8 -}}
{{- end -}}

{{- define "fraction-injector.lockTimeFormat" -}}
2006-01-02T15:04:05Z
{{- end -}}

{{/*
The tables before, as JSON: {number, until, tables}; {} where the lock is new, or is rendered without a cluster to look at.
Where nothing changes, those of the last change stay for what is left of their hour.
*/}}
{{- define "fraction-injector.lockTablesBefore" -}}
{{- $found := dict -}}
{{- $name := include "fraction-injector.admissionPolicyName" (dict "root" . "name" "injected") -}}
{{- range dig "spec" "variables" list (lookup "admissionregistration.k8s.io/v1" "ValidatingAdmissionPolicy" "" $name) -}}
{{- $_ := set $found .name .expression -}}
{{- end -}}
{{- $format := include "fraction-injector.lockTimeFormat" . -}}
{{- $number := dig "number" "" $found | trimAll "'" -}}
{{- $until := now | dateModify "+1h" -}}
{{- $suffix := "Now" -}}
{{- if eq $number (include "fraction-injector.lockNumber" .) -}}
{{- $number = dig "numberBefore" "" $found | trimAll "'" -}}
{{- $until = dig "until" "1970-01-01T00:00:00Z" $found | trimAll "'" | toDate $format -}}
{{- $suffix = "Before" -}}
{{- end -}}
{{- $before := dict -}}
{{- if and $number (gt (unixEpoch $until | int64) (now | unixEpoch | int64)) -}}
{{- $tables := dict -}}
{{- range $table, $now := include "fraction-injector.lockTables" . | fromJson -}}
{{- $_ := set $tables $table (dig (print $table $suffix) $now $found) -}}
{{- end -}}
{{- $before = dict "number" $number "until" (dateInZone $format $until "UTC") "tables" $tables -}}
{{- end -}}
{{- $before | toJson -}}
{{- end -}}
