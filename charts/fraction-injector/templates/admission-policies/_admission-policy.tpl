{{/* (dict "root" $ "name" SUFFIX): name of a policy and of its binding. */}}
{{- define "fraction-injector.admissionPolicyName" -}}
{{ include "fraction-injector.fullname" .root }}-{{ .name }}
{{- end -}}

{{/* The ServiceAccount while which exists the lock is active; it contains the release's name, which no value changes. */}}
{{- define "fraction-injector.admissionPolicyParam" -}}
{{ .Release.Name }}-second-lock
{{- end -}}

{{- define "fraction-injector.admissionPolicyMetadata" -}}
name: {{ include "fraction-injector.admissionPolicyName" . }}{{ .suffix | default "" }}
labels:
  {{- include "fraction-injector.labels" .root | nindent 2 }}
  app.kubernetes.io/component: second-lock
{{- end -}}

{{- define "fraction-injector.admissionPolicyBinding" -}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  {{- include "fraction-injector.admissionPolicyMetadata" . | nindent 2 }}
spec:
  policyName: {{ include "fraction-injector.admissionPolicyName" . }}
  paramRef:
    name: {{ include "fraction-injector.admissionPolicyParam" .root }}
    namespace: {{ .root.Release.Namespace }}
    parameterNotFoundAction: Allow
  validationActions: [Deny]
  {{- with .asks }}
  matchResources:
    matchPolicy: Equivalent
    namespaceSelector: {}
    objectSelector:
      matchExpressions:
        - {key: {{ . }}, operator: Exists}
  {{- end }}
{{- end -}}

{{/* A binding for each label that requests a share, because a selector cannot express "one or the other". */}}
{{- define "fraction-injector.admissionPolicyBindings" -}}
{{ include "fraction-injector.admissionPolicyBinding" (merge (dict "asks" "clearml-injector/fraction") .) }}
{{ include "fraction-injector.admissionPolicyBinding" (merge (dict "asks" "clearml-injector/gpu-memory" "suffix" "-by-memory") .) }}
{{- end -}}

{{/* The mirror of a static pod, which already runs: the same condition as in the webhook. */}}
{{- define "fraction-injector.admissionPolicyMatchConditions" -}}
matchConditions:
  - name: not-a-mirror-pod
    expression: >-
      !(request.userInfo.?username.orValue('').matches('^system:node:.') &&
      'system:nodes' in request.userInfo.?groups.orValue([]) &&
      has(object.metadata.annotations) && 'kubernetes.io/config.mirror' in object.metadata.annotations)
{{- end -}}

{{/* Advice for a pod that is marked as injected but differs from the webhook's result. */}}
{{- define "fraction-injector.admissionPolicyAdvice" -}}
leave out what the injector writes, and if you did, tell your admin
{{- end -}}

{{/* CEL: no container requests a resource with a name that matches a pattern. */}}
{{- define "fraction-injector.celAsksForNone" -}}
(dyn(object.spec.containers) + dyn(has(object.spec.initContainers) ? object.spec.initContainers : [])).all(c,
!has(c.resources) || (
(!has(c.resources.limits) || c.resources.limits.all(n, !n.matches({{ . | squote }}))) &&
(!has(c.resources.requests) || c.resources.requests.all(n, !n.matches({{ . | squote }})))))
{{- end -}}
