{{/* (dict "root" $ "name" SUFFIX): name of a policy and of its binding. */}}
{{- define "fraction-injector.lockName" -}}
{{ include "fraction-injector.fullname" .root }}-{{ .name }}
{{- end -}}

{{- define "fraction-injector.lockMetadata" -}}
name: {{ include "fraction-injector.lockName" . }}
labels:
  {{- include "fraction-injector.labels" .root | nindent 2 }}
  app.kubernetes.io/component: second-lock
{{- end -}}

{{- define "fraction-injector.lockBinding" -}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  {{- include "fraction-injector.lockMetadata" . | nindent 2 }}
spec:
  policyName: {{ include "fraction-injector.lockName" . }}
  validationActions: [Deny]
{{- end -}}
