{{/* What both Deployments share; all take (dict "root" $ "component" NAME "values" VALUES). */}}

{{- define "fraction-injector.metadata" -}}
name: {{ include "fraction-injector.fullname" .root }}-{{ .component }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "fraction-injector.labels" .root | nindent 2 }}
  app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "fraction-injector.componentSelector" -}}
{{ include "fraction-injector.selector" .root }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "fraction-injector.deploymentSpec" -}}
replicas: {{ .values.replicas }}
revisionHistoryLimit: 10
progressDeadlineSeconds: 600
selector:
  matchLabels:
    {{- include "fraction-injector.componentSelector" . | nindent 4 }}
{{- end -}}

{{- define "fraction-injector.podMetadata" -}}
labels:
  {{- include "fraction-injector.labels" .root | nindent 2 }}
  app.kubernetes.io/component: {{ .component }}
{{- with .values.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "fraction-injector.podPlacement" -}}
restartPolicy: Always
schedulerName: default-scheduler
# Unready after SIGTERM for stopDelaySeconds, then at most 20 s for what is in flight.
terminationGracePeriodSeconds: 40
{{- with include "fraction-injector.priorityClassName" .root }}
priorityClassName: {{ . }}
{{- end }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- toYaml .root.Values.podSecurityContext | nindent 2 }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
affinity:
  {{- if .values.affinity }}
  {{- toYaml .values.affinity | nindent 2 }}
  {{- else }}
  # Zones here and not below: a node that lacks one of the keys below would count for neither.
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: topology.kubernetes.io/zone
          labelSelector:
            matchLabels:
              {{- include "fraction-injector.componentSelector" . | nindent 14 }}
  {{- end }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "fraction-injector.componentSelector" . | nindent 8 }}
    # Pods that a rollout is about to end must not count, or its new ones all land on one node.
    matchLabelKeys: [pod-template-hash]
{{- end -}}

{{- define "fraction-injector.container" -}}
image: {{ include "fraction-injector.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
resources:
  {{- toYaml .values.resources | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  capabilities:
    drop: [ALL]
  readOnlyRootFilesystem: true
terminationMessagePath: /dev/termination-log
terminationMessagePolicy: File
{{- range $probe, $settings := dict
  "startupProbe" (dict "path" "/livez" "periodSeconds" 1 "failureThreshold" 60)
  "livenessProbe" (dict "path" "/livez" "periodSeconds" 10 "failureThreshold" 6)
  "readinessProbe" (dict "path" "/readyz" "periodSeconds" 2 "failureThreshold" 1) }}
{{ $probe }}:
  httpGet:
    path: {{ $settings.path }}
    port: health
    scheme: HTTP
  periodSeconds: {{ $settings.periodSeconds }}
  failureThreshold: {{ $settings.failureThreshold }}
  successThreshold: 1
  timeoutSeconds: 5
{{- end }}
{{- end -}}

{{- define "fraction-injector.tlsVolume" -}}
- name: tls
  secret:
    secretName: {{ include "fraction-injector.tlsSecret" .root }}
    defaultMode: 0440
{{- end -}}

{{- define "fraction-injector.service" -}}
apiVersion: v1
kind: Service
metadata:
  {{- include "fraction-injector.metadata" . | nindent 2 }}
spec:
  type: ClusterIP
  internalTrafficPolicy: Cluster
  sessionAffinity: None
  selector:
    {{- include "fraction-injector.componentSelector" . | nindent 4 }}
  ports:
    - name: https
      port: {{ .port }}
      targetPort: https
      protocol: TCP
    - name: health
      port: {{ .values.healthPort }}
      targetPort: health
      protocol: TCP
{{- end -}}

{{- define "fraction-injector.disruptionBudget" -}}
{{- if and .root.Values.podDisruptionBudget.enabled (gt (int .values.replicas) 1) }}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "fraction-injector.metadata" . | nindent 2 }}
spec:
  minAvailable: 1
  # A pod that never gets ready must not block the draining of its node.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "fraction-injector.componentSelector" . | nindent 6 }}
{{- end }}
{{- end -}}

{{/* Ports and blocks as (dict "blocks" CIDRS "port" PORT). */}}
{{- define "fraction-injector.ingressFromBlocks" -}}
- from:
    {{- range .blocks }}
    - ipBlock: {cidr: {{ . | quote }}}
    {{- end }}
  ports:
    - {port: {{ .port }}, protocol: TCP}
{{- end -}}
